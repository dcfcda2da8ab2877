"""A company's shared drive: its users, folders, files, versions of files, readers, and links that were sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from rods_env.apis.api import Api, Record, Table, tool
from rods_env.apis.draw import Draw
from rods_env.apis.kinds import Date, Email, Kind, PersonName, Ref
from rods_env.apis.lexicon import Cast
from rods_env.errors import ToolError

FOLDERS = (
    "Invoices", "Contracts", "Marketing", "Research", "Minutes", "Training", "Templates", "Photos", "Archive",
    "Suppliers", "Recruiting", "Travel",
)  # fmt: skip
FILES = (
    "budget.xlsx", "forecast.xlsx", "price_list.xlsx", "inventory.xlsx", "timesheet.xlsx", "salaries.xlsx",
    "expenses.xlsx", "contacts.xlsx", "offer.docx", "agenda.docx", "handbook.docx", "contract.docx", "letter.docx",
    "checklist.docx", "proposal.docx", "survey.docx", "summary.pdf", "brochure.pdf", "floor_plan.pdf", "report.pdf",
    "manual.pdf", "certificate.pdf", "receipt.pdf", "poster.pdf", "pitch.pptx", "roadmap.pptx", "kickoff.pptx",
    "strategy.pptx", "results.pptx", "workshop.pptx", "notes.txt", "ideas.txt", "questions.txt", "feedback.txt",
    "todo.txt", "glossary.txt",
)  # fmt: skip
MORE_FILES = FILES + tuple(f"old_{name}" for name in FILES)  # only big worlds need these
NEW_FILES = (
    "draft.docx", "plan.docx", "overview.xlsx", "orders.xlsx", "minutes.txt", "reminder.txt", "welcome.docx",
    "quotes.xlsx", "schedule.xlsx", "guidelines.docx", "outline.txt", "shortlist.txt",
)  # fmt: skip
_OPENINGS = (
    "All numbers are final.", "This is a first draft.", "The second page is still missing.", "Prices include tax.",
    "Nothing has changed since last year.", "We agreed on three points.", "The deadline is the end of the month.",
    "Two names have to be added to the list.", "The board has approved this.", "Sales went up a little in spring.",
    "The old rules still apply.", "Costs were lower than everyone expected.",
)  # fmt: skip
_CLOSINGS = (
    "Please do not print it.", "Comments are welcome.", "It will be reviewed in autumn.", "Details follow.",
    "Ask the legal team before you pass it on to anybody.", "Keep it short.", "The next meeting decides.",
    "A longer version is in preparation.", "Thanks to all who helped.", "Everyone in the team has read it.",
)  # fmt: skip
TEXTS = tuple(f"{opening} {closing}" for opening in _OPENINGS for closing in _CLOSINGS)

DriveUserId = Annotated[str, Ref("drive_user")]
FolderId = Annotated[str, Ref("folder")]
FileId = Annotated[str, Ref("file")]
VersionId = Annotated[str, Ref("version")]
FolderName = Annotated[
    str, Kind("folder_name", "What a folder of the drive is called.", words=FOLDERS, exchangeable=True)
]
FileText = Annotated[str, Kind("file_text", "What a file says.", words=TEXTS, quote=True, exchangeable=True)]
FileName = Annotated[str, Kind("file_name", "What a file is called, with its ending.", words=NEW_FILES)]
Kilobytes = Annotated[int, Kind("kilobytes", "A size in kilobytes.", unit="kilobytes", ge=0)]
FileStatus = Literal["unlocked", "locked", "deleted"]
VersionState = Literal["current", "former"]
_STATUSES: tuple[FileStatus, ...] = ("unlocked", "unlocked", "locked")


class DriveUser(Record, frozen=True):
    """Somebody who has an account on the drive."""

    CALLED: ClassVar[str] = "{name}"
    NOUN: ClassVar[str] = "drive user"

    id: DriveUserId
    name: PersonName
    email: Email


class Folder(Record, frozen=True):
    """A folder of the drive, which belongs to one drive user."""

    CALLED: ClassVar[str] = "the {folder_name} folder"

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "folder_name": "{} ~",
        "created": ("oldest ~", "newest ~"),
    }

    id: FolderId
    owner_id: DriveUserId
    folder_name: FolderName
    owner: PersonName
    created: Date


class DriveFile(Record, frozen=True):
    """A file in a folder. Deleted files are in the trash and remember their folder."""

    CALLED: ClassVar[str] = "{file_name}"
    NOUN: ClassVar[str] = "file"

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "file_name": "~ called {}",
        "size": ("~ with the smallest size", "~ with the biggest size"),
        "changed": ("~ that was changed first", "~ that was changed last"),
    }

    id: FileId
    folder_id: FolderId
    folder_name: FolderName
    file_name: FileName
    size: Kilobytes
    changed: Date
    status: FileStatus


class FileVersion(Record, frozen=True):
    """What a file said at some time. One version of each file is the current one."""

    NOUN: ClassVar[str] = "version"

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "saved": ("oldest ~", "latest ~"),
        "size": ("shortest ~", "longest ~"),
    }

    id: VersionId
    file_id: FileId
    file_name: FileName
    text: FileText
    size: Kilobytes
    saved: Date
    state: VersionState


class Share(Record, frozen=True):
    """That a drive user may read a file in somebody else's folder."""

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {"since": ("oldest ~", "newest ~")}

    id: Annotated[str, Ref("share")]
    file_id: FileId
    reader_id: DriveUserId
    file_name: FileName
    reader: PersonName
    since: Date


class FileLink(Record, frozen=True):
    """A link to a file that was sent by e-mail."""

    id: Annotated[str, Ref("file_link")]
    file_id: FileId
    file_name: FileName
    email: Email


class FolderSize(Record, frozen=True):
    """How much room a folder takes."""

    size: Kilobytes


class Files(Api):
    """A company's shared drive, as its administrators see it."""

    NAME: ClassVar[str] = "files"
    SUBSTITUTES: ClassVar[frozenset[str]] = frozenset({"restore_version"})  # edit_file with the old text

    drive_users = Table(DriveUser, "dru")
    folders = Table(Folder, "fol")
    files = Table(DriveFile, "fil")
    versions = Table(FileVersion, "ver")
    shares = Table(Share, "sha")
    links = Table(FileLink, "lnk")

    @tool(
        "lookup",
        ask=(
            "find {name} on the shared drive",
            "look up the drive account of {name}",
            "check which drive account {name} has",
            "look up {name} on the company drive",
        ),
        rows="{name}",
        errors=("no_such_drive_user",),
    )
    def find_drive_user(self, name: PersonName) -> DriveUser:
        """Find a user of the drive by name.

        Args:
            name: The drive user's full name.
        """
        found = self.drive_users.where(name=name)
        if not found:
            raise ToolError("no_such_drive_user", f"Nobody on the drive is called {name!r}.")
        return found[0]

    @tool(
        "lookup",
        ask=(
            "find the {folder_name} folder on the shared drive",
            "look up the {folder_name} folder on the shared drive",
            "check who owns the {folder_name} folder",
            "tell me who the {folder_name} folder belongs to",
        ),
        rows="the {folder_name} folder",
        errors=("no_such_folder",),
    )
    def find_folder(self, folder_name: FolderName) -> Folder:
        """Find a folder by its name. No two folders of the drive have the same name.

        Args:
            folder_name: The folder's name.
        """
        found = self.folders.where(folder_name=folder_name)
        if not found:
            raise ToolError("no_such_folder", f"The drive has no folder called {folder_name!r}.")
        return found[0]

    @tool(
        "search",
        ask=(
            "show me {owner_id}'s folders on the drive",
            "list {owner_id}'s folders",
            "list the folders that belong to {owner_id}",
            "tell me which folders on the drive belong to {owner_id}",
        ),
        rows="{owner_id}'s ~",
    )
    def list_folders(self, owner_id: DriveUserId) -> list[Folder]:
        """List the folders that belong to a drive user.

        Args:
            owner_id: The drive user who owns the folders.
        """
        self.drive_users[owner_id]
        return self.folders.where(owner_id=owner_id)

    @tool(
        "search",
        ask=(
            "show me the files in {folder_id}",
            "list the files in {folder_id}",
            "tell me what is in {folder_id}",
            "check which files are in {folder_id}",
        ),
        rows="the ~ in {folder_id}",
    )
    def list_files(self, folder_id: FolderId) -> list[DriveFile]:
        """List the files of a folder, without those in the trash.

        Args:
            folder_id: The folder to look into.
        """
        self.folders[folder_id]
        return self.files.where(lambda f: f.folder_id == folder_id and f.status != "deleted")

    @tool(
        "search",
        ask=(
            "show me the {status} files in the {folder_name} folder",
            "check the {folder_name} folder for {status} files",
            "list the {status} files in the {folder_name} folder",
            "tell me which files in the {folder_name} folder are {status}",
        ),
        rows="the {status} ~ in the {folder_name} folder",
    )
    def search_files(self, folder_name: FolderName, status: FileStatus) -> list[DriveFile]:
        """List the files of a folder that are unlocked, locked, or deleted and in the trash.

        Args:
            folder_name: The name of the folder that they are in, or were in.
            status: What state they have to be in.
        """
        return self.files.where(folder_name=folder_name, status=status)

    @tool(
        "search",
        ask=(
            "show me the versions of {file_id}",
            "list the saved versions of {file_id}",
            "tell me which versions of {file_id} there are",
            "go through the version history of {file_id}",
        ),
        rows="the ~ of {file_id}",
    )
    def list_versions(self, file_id: FileId) -> list[FileVersion]:
        """List the current and the former versions of a file, with their texts.

        Args:
            file_id: The file whose versions are wanted.
        """
        self.files[file_id]
        return self.versions.where(file_id=file_id)

    @tool(
        "search",
        ask=(
            "tell me who can read {file_id}",
            "check who {file_id} is shared with",
            "show me who has access to {file_id}",
            "list the shares of {file_id}",
        ),
        rows="the ~ of {file_id}",
    )
    def list_shares(self, file_id: FileId) -> list[Share]:
        """List the people a file is shared with, without the owner of its folder.

        Args:
            file_id: The file that is shared.
        """
        self.files[file_id]
        return self.shares.where(file_id=file_id)

    @tool(
        "compute",
        ask=(
            "work out how much space {folder_id} takes up",
            "add up the sizes of the files in {folder_id}",
            "calculate the total size of {folder_id}",
            "tell me how big {folder_id} is altogether",
        ),
        rows="the total size of {folder_id}",
    )
    def compute_folder_size(self, folder_id: FolderId) -> FolderSize:
        """Add up the sizes of the files in a folder, without those in the trash.

        Args:
            folder_id: The folder to measure.
        """
        self.folders[folder_id]
        files = self.files.where(lambda f: f.folder_id == folder_id and f.status != "deleted")
        return FolderSize(size=sum(f.size for f in files))

    @tool(
        "create",
        ask=(
            "create a file called {file_name} with the text {text} in {folder_id}",
            "add a file called {file_name} to {folder_id} that says {text}",
            "write {text} into a new file called {file_name} in {folder_id}",
            "save {text} as {file_name} in {folder_id}",
        ),
        done="The new file {file_name} is in the {folder_name} folder.",
        errors=("name_taken",),
    )
    def create_file(self, folder_id: FolderId, file_name: FileName, text: FileText) -> DriveFile:
        """Create a file in a folder. Its first version is the text.

        Args:
            folder_id: The folder that it goes into.
            file_name: The file's name; the folder must have no file of that name, not even in the trash.
            text: What the file says.
        """
        folder = self.folders[folder_id]
        self._check_name(folder, file_name)
        file = self.files.add(
            folder_id=folder_id, folder_name=folder.folder_name, file_name=file_name, size=_kilobytes(text),
            changed=self.today, status="unlocked",
        )  # fmt: skip
        self._save(file, text)
        return file

    @tool(
        "create",
        ask=(
            "share {file_id} with {drive_user_id}",
            "give {drive_user_id} access to {file_id}",
            "let {drive_user_id} read {file_id}",
            "make {file_id} readable for {drive_user_id}",
        ),
        done="The file {file_name} is now shared with {reader}.",
        errors=("in_trash", "can_read_already"),
    )
    def share_file(self, file_id: FileId, drive_user_id: DriveUserId) -> Share:
        """Let a drive user read a file in somebody else's folder.

        Args:
            file_id: The file to share.
            drive_user_id: The person who may read it from now on.
        """
        file, user = self._kept(file_id), self.drive_users[drive_user_id]
        if user.id in self._readers(file):
            raise ToolError("can_read_already", f"{user.name} can read {file.file_name} already.")
        return self.shares.add(
            file_id=file_id, reader_id=drive_user_id, file_name=file.file_name, reader=user.name, since=self.today
        )

    @tool(
        "update",
        ask=(
            "replace the text of {file_id} with {text}",
            "change {file_id} so that it says {text}",
            "overwrite {file_id} with {text}",
            "make {file_id} say {text}",
        ),
        done="The text of {file_name} was replaced.",
        errors=("in_trash", "locked", "same_text"),
    )
    def edit_file(self, file_id: FileId, text: FileText) -> FileVersion:
        """Replace the text of an unlocked file. The text so far stays as a former version.

        Args:
            file_id: The file to change.
            text: The new text.
        """
        file = self._changeable(file_id)
        (current,) = self.versions.where(lambda v: v.file_id == file_id and v.state == "current")
        if current.text == text:
            raise ToolError("same_text", f"That is what {file.file_name} says already.")
        self.versions.change(current, state="former")
        self.files.change(file, size=_kilobytes(text), changed=self.today)
        return self._save(file, text)

    @tool(
        "update",
        ask=(
            "unlock {file_id}",
            "take the lock off {file_id}",
            "remove the lock from {file_id}",
            "lift the lock on {file_id}",
        ),
        done="The file {file_name} is no longer locked.",
        errors=("not_locked",),
    )
    def unlock_file(self, file_id: FileId) -> DriveFile:
        """Take the lock off a file, so that it can be changed, moved and deleted.

        Args:
            file_id: The locked file.
        """
        file = self.files[file_id]
        if file.status != "locked":
            raise ToolError("not_locked", f"The file {file.file_name} is {file.status}, so there is no lock to remove.")
        return self.files.change(file, status="unlocked")

    @tool(
        "update",
        ask=("bring back {version_id}", "go back to {version_id}", "return to {version_id}", "restore {version_id}"),
        done="The file {file_name} is back at an earlier version.",
        errors=("in_trash", "locked", "already_current"),
    )
    def restore_version(self, version_id: VersionId) -> DriveFile:
        """Make a former version of an unlocked file the current one.

        Args:
            version_id: The former version.
        """
        version = self.versions[version_id]
        file = self._changeable(version.file_id)
        if version.state == "current":
            raise ToolError("already_current", f"Version {version_id} is the current one; choose a former version.")
        (current,) = self.versions.where(lambda v: v.file_id == file.id and v.state == "current")
        self.versions.change(current, state="former")
        self.versions.change(version, state="current")
        return self.files.change(file, size=version.size, changed=self.today)

    @tool(
        "delete",
        ask=("delete {file_id}", "move {file_id} to the trash", "throw away {file_id}", "get rid of {file_id}"),
        done="The file {file_name} is in the trash.",
        errors=("in_trash", "locked"),
    )
    def delete_file(self, file_id: FileId) -> DriveFile:
        """Put an unlocked file in the trash, from where it can be restored.

        Args:
            file_id: The file to delete.
        """
        return self.files.change(self._changeable(file_id), status="deleted")

    @tool(
        "transfer",
        ask=(
            "restore {file_id} from the trash",
            "get {file_id} back out of the trash",
            "undelete {file_id}",
            "take {file_id} out of the trash",
        ),
        done="The file {file_name} is back in the {folder_name} folder.",
        errors=("not_in_trash",),
    )
    def restore_file(self, file_id: FileId) -> DriveFile:
        """Put a deleted file back from the trash into its folder, unlocked.

        Args:
            file_id: The file in the trash.
        """
        file = self.files[file_id]
        if file.status != "deleted":
            raise ToolError("not_in_trash", f"The file {file.file_name} is {file.status}, not in the trash.")
        return self.files.change(file, status="unlocked")

    @tool(
        "transfer",
        ask=("move {file_id} to {folder_id}", "put {file_id} into {folder_id}", "transfer {file_id} to {folder_id}"),
        done="The file {file_name} was moved to the {folder_name} folder.",
        errors=("in_trash", "locked", "already_there", "name_taken"),
    )
    def move_file(self, file_id: FileId, folder_id: FolderId) -> DriveFile:
        """Move an unlocked file to another folder.

        Args:
            file_id: The file to move.
            folder_id: The folder that it goes to; it must have no file of that name, not even in the trash.
        """
        file, folder = self._changeable(file_id), self.folders[folder_id]
        if file.folder_id == folder_id:
            raise ToolError("already_there", f"The file {file.file_name} is in that folder already.")
        self._check_name(folder, file.file_name)
        return self.files.change(file, folder_id=folder_id, folder_name=folder.folder_name)

    @tool(
        "send",
        ask=(
            "send {email} a link to {file_id}",
            "mail {email} the link to {file_id}",
            "send a link to {file_id} to {email}",
            "let {email} have a link to {file_id}",
        ),
        done="A link to the file {file_name} went to {email}.",
        errors=("in_trash", "no_access", "already_sent"),
    )
    def send_file_link(self, file_id: FileId, email: Email) -> FileLink:
        """Send a link to a file by e-mail, to the owner of its folder or to somebody the file is shared with.

        Args:
            file_id: The file that the link leads to.
            email: The address of somebody who can read the file.
        """
        file = self._kept(file_id)
        if email not in {self.drive_users[reader].email for reader in self._readers(file)}:
            raise ToolError("no_access", f"{email} has no access to {file.file_name}; share it first.")
        if self.links.where(file_id=file_id, email=email):
            raise ToolError("already_sent", f"A link to {file.file_name} went to {email} before.")
        return self.links.add(file_id=file_id, file_name=file.file_name, email=email)

    def _kept(self, file_id: str) -> DriveFile:
        file = self.files[file_id]
        if file.status == "deleted":
            raise ToolError("in_trash", f"The file {file.file_name} is in the trash; restore it first.")
        return file

    def _changeable(self, file_id: str) -> DriveFile:
        file = self._kept(file_id)
        if file.status == "locked":
            raise ToolError("locked", f"The file {file.file_name} is locked; unlock it first.")
        return file

    def _check_name(self, folder: Folder, file_name: str) -> None:
        if self.files.where(folder_id=folder.id, file_name=file_name):
            raise ToolError("name_taken", f"The {folder.folder_name} folder has a file {file_name!r} already.")

    def _readers(self, file: DriveFile) -> set[str]:
        """The ids of the drive users who can read a file."""
        owner_id = self.folders[file.folder_id].owner_id
        return {owner_id, *(s.reader_id for s in self.shares.where(file_id=file.id))}

    def _save(self, file: DriveFile, text: str) -> FileVersion:
        return self.versions.add(
            file_id=file.id, file_name=file.file_name, text=text, size=_kilobytes(text), saved=self.today,
            state="current",
        )  # fmt: skip

    @classmethod
    def populate(cls, draw: Draw, cast: Cast, today: str, size: int) -> Iterator[Record]:
        users = [DriveUser(draw.id("dru"), p.name, p.email) for p in cast.people[:4]]
        yield from users
        names = iter(draw.shuffled(FILES if size <= 2 else MORE_FILES))
        kept: list[tuple[DriveFile, DriveUser]] = []
        for at, folder_name in enumerate(draw.sample(FOLDERS, 2 + 3 * size)):
            owner = users[at % 3]
            folder = Folder(draw.id("fol"), owner.id, folder_name, owner.name, draw.date(today, -400, -100))
            yield folder
            statuses: list[FileStatus] = [draw.choice(_STATUSES) for _ in range(2 + draw.index(max(2, size)))]
            if draw.chance(0.4):
                statuses.append("deleted")
            for status, file_name in zip(statuses, names, strict=False):
                text = draw.choice(TEXTS)
                file = DriveFile(
                    draw.id("fil"), folder.id, folder_name, file_name, _kilobytes(text), draw.date(today, -40, -1),
                    status,
                )  # fmt: skip
                yield file
                yield FileVersion(draw.id("ver"), file.id, file_name, text, file.size, file.changed, "current")
                if status == "deleted":
                    continue
                kept.append((file, owner))
                for _ in range(draw.choice((0, 0, 0, 1, 2))):
                    text = draw.choice(TEXTS)
                    saved = draw.date(today, -95, -41)
                    yield FileVersion(draw.id("ver"), file.id, file_name, text, _kilobytes(text), saved, "former")
        for file, owner in draw.sample(kept, 2 * size):
            for reader in draw.sample([u for u in users if u is not owner], 2 + draw.index(2)):
                since = draw.date(today, -30, -1)
                yield Share(draw.id("sha"), file.id, reader.id, file.file_name, reader.name, since)


def _kilobytes(text: str) -> int:
    """The size of a file with this text: a few kilobytes of frame and one for each character."""
    return 8 + len(text)
