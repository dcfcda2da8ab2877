"""A mailbox: contacts, mails in folders, drafts and attachments, all of one owner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from rods_env.apis.api import Api, Record, Table, tool
from rods_env.apis.draw import Draw
from rods_env.apis.kinds import Date, Email, Kind, PersonName, Ref, Sentence, Subject
from rods_env.apis.lexicon import SENTENCES, Cast
from rods_env.errors import ToolError

FOLDERS = ("inbox", "archive", "trash", "sent", "travel", "receipts", "family", "hobbies", "insurance", "recipes")
_FIXED_FOLDERS, _OWN_FOLDERS = FOLDERS[:4], FOLDERS[4:]
LABELS = ("urgent", "private", "work")
_USUAL = ("private", "private", "work", "work", "urgent")
TOPICS = (
    "Summer plans", "Lunch on Friday", "Broken heater", "Meeting notes", "New phone number", "Concert tickets",
    "Moving house", "Garden fence", "Budget for spring", "Library card", "School trip", "Car repair",
    "Birthday party", "Reading list", "Weekend in the hills", "Change of plans",
)  # fmt: skip
TITLES = (
    "floor plan", "price list", "train ticket", "holiday photo", "packing list", "cake recipe", "guest list",
    "timetable", "rental contract", "sketch", "seating plan", "bill",
)  # fmt: skip

# What a person may write down as somebody's new address: none that anybody in the story has already.
ADDRESSES = (
    "bluebird@example.net", "red.kite@example.net", "old.oak@example.net", "northwind@example.net",
    "first.snow@example.net", "green.gate@example.net", "sunny.side@example.net", "paper.boat@example.net",
    "tall.pine@example.net", "river.bend@example.net", "wild.mint@example.net", "night.train@example.net",
)  # fmt: skip

ContactId = Annotated[str, Ref("contact")]
MailId = Annotated[str, Ref("mail")]
MailboxId = Annotated[str, Ref("mailbox")]
DraftId = Annotated[str, Ref("draft")]
AttachmentId = Annotated[str, Ref("attachment")]
FolderName = Annotated[str, Kind("mail_folder", "What a mailbox folder is called.", words=FOLDERS)]
Label = Annotated[str, Kind("mail_label", "A label on a mail.", words=LABELS)]
NewAddress = Annotated[
    str,
    Kind(
        "new_address", "An e-mail address to write down.", words=ADDRESSES, exchangeable=True,
        pattern=r"^[^@\s]+@[^@\s]+$",
    ),
]
Title = Annotated[str, Kind("attachment_title", "What an attachment is called.")]
Unread = Annotated[int, Kind("unread_mails", "A number of unread mails.")]
MailStatus = Literal["unread", "read", "answered", "sent"]
DraftStatus = Literal["open", "sent"]


class Contact(Record, frozen=True):
    """A person in the address book."""

    CALLED: ClassVar[str] = "{name}"

    id: ContactId
    name: PersonName
    email: Email


class Mailbox(Record, frozen=True):
    """A mailbox folder and whose it is."""

    CALLED: ClassVar[str] = "the {folder} folder"
    NOUN: ClassVar[str] = "mailbox folder"

    id: MailboxId
    folder: FolderName
    owner: PersonName
    address: Email


class MailMessage(Record, frozen=True):
    """A mail that came or went out."""

    NOUN: ClassVar[str] = "mail"
    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "author": "~ from {}",
        "subject": "{} ~",
        "day": ("oldest ~", "latest ~"),
        "kilobytes": ("smallest ~", "biggest ~"),
    }

    id: MailId
    folder: FolderName
    author: PersonName
    sender: Email
    recipient: Email
    subject: Subject
    text: Sentence
    day: Date
    kilobytes: int
    label: Label
    status: MailStatus


class Attachment(Record, frozen=True):
    """Something that is attached to a mail."""

    CALLED: ClassVar[str] = "the {title}"
    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {"title": "{}", "kilobytes": ("smallest ~", "biggest ~")}

    id: AttachmentId
    mail_id: MailId
    title: Title
    kilobytes: int


class MailDraft(Record, frozen=True):
    """A mail that is being written. The enclosure is empty until something is attached; `kilobytes` is its size."""

    NOUN: ClassVar[str] = "draft"
    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "subject": "{} ~",
        "edited": ("oldest ~", "latest ~"),
    }

    id: DraftId
    email: Email
    subject: Subject
    text: Sentence
    edited: Date
    enclosure: Title
    kilobytes: int
    status: DraftStatus


class UnreadCount(Record, frozen=True):
    """How much is left to read."""

    unread: Unread


class Mail(Api):
    """A mailbox with its address book, as its owner sees it."""

    NAME: ClassVar[str] = "mail"
    PERSONAL: ClassVar[bool] = True
    SUBSTITUTES: ClassVar[frozenset[str]] = frozenset(
        {"trash_mail", "move_mail", "send_draft", "send_mail", "forward_mail", "reply_to_mail"}
    )

    contacts = Table(Contact, "con")
    mailboxes = Table(Mailbox, "mbx")
    mails = Table(MailMessage, "mai")
    attachments = Table(Attachment, "att")
    drafts = Table(MailDraft, "dra")

    @tool(
        "lookup",
        ask=(
            "look up {name}'s entry in the address book",
            "find {name}'s contact details in the address book",
            "check {name}'s e-mail address in my contacts",
            "look for {name} among my contacts",
        ),
        rows="{name}",
        errors=("no_such_contact",),
    )
    def find_contact(self, name: PersonName) -> Contact:
        """Find a contact in the address book by name.

        Args:
            name: The contact's full name.
        """
        found = self.contacts.where(name=name)
        if not found:
            raise ToolError("no_such_contact", f"Nobody in the address book is called {name!r}.")
        return found[0]

    @tool(
        "lookup",
        ask=(
            "find my {folder} folder",
            "look up the {folder} folder in my mailbox",
            "check whether my mailbox has a {folder} folder",
        ),
        rows="my {folder} folder",
        errors=("no_such_folder",),
    )
    def find_mailbox(self, folder: FolderName) -> Mailbox:
        """Find a mailbox folder by name.

        Args:
            folder: The folder's name.
        """
        found = self.mailboxes.where(folder=folder)
        if not found:
            raise ToolError("no_such_folder", f"The mailbox has no folder called {folder!r}.")
        return found[0]

    @tool(
        "search",
        ask=(
            "show me the mails from {sender}",
            "list the mails sent by {sender}",
            "look for mails from {sender}",
            "check which mails I have from {sender}",
        ),
        rows="the ~ from {sender}",
    )
    def list_mails_from(self, sender: Email) -> list[MailMessage]:
        """List the mails that a person wrote, in whatever folder they are.

        Args:
            sender: The e-mail address from which they came.
        """
        return self.mails.where(sender=sender)

    @tool(
        "search",
        ask=(
            "show me the mails labelled {label} in my {folder} folder",
            "list everything labelled {label} in the {folder} folder",
            "look in my {folder} folder for mails labelled {label}",
            "go through the mails labelled {label} in my {folder} folder",
        ),
        rows="the ~ labelled {label} in my {folder} folder",
    )
    def search_labelled_mails(self, folder: FolderName, label: Label) -> list[MailMessage]:
        """List the mails in a folder that carry a label.

        Args:
            folder: The name of the mailbox folder.
            label: The label on the mails.
        """
        return self.mails.where(folder=folder, label=label)

    @tool(
        "search",
        ask=(
            "show me my drafts to {email}",
            "tell me which drafts I have for {email}",
            "list the drafts addressed to {email}",
            "go through my drafts to {email}",
        ),
        rows="my ~ to {email}",
    )
    def list_drafts(self, email: Email) -> list[MailDraft]:
        """List the drafts to a person, those that were sent included.

        Args:
            email: The e-mail address to which they are written.
        """
        return self.drafts.where(email=email)

    @tool(
        "search",
        ask=(
            "show me {mail_id}'s attachments",
            "tell me what is attached to {mail_id}",
            "list everything attached to {mail_id}",
            "check {mail_id} for attachments",
        ),
        rows="the ~ from {mail_id}",
    )
    def list_mail_attachments(self, mail_id: MailId) -> list[Attachment]:
        """List the attachments of a mail.

        Args:
            mail_id: The mail that carries them.
        """
        self.mails[mail_id]
        return self.attachments.where(mail_id=mail_id)

    @tool(
        "compute",
        ask=(
            "count the unread mails in {mailbox_id}",
            "tell me how many unread mails there are in {mailbox_id}",
            "work out how many mails in {mailbox_id} are unread",
            "check how many mails are still unread in {mailbox_id}",
        ),
        rows="the number of unread mails in {mailbox_id}",
    )
    def count_unread_mails(self, mailbox_id: MailboxId) -> UnreadCount:
        """Count the unread mails in a mailbox folder.

        Args:
            mailbox_id: The folder to count in.
        """
        folder = self.mailboxes[mailbox_id].folder
        return UnreadCount(len(self.mails.where(lambda m: m.folder == folder and m.status == "unread")))

    @tool(
        "create",
        ask=(
            "save {email} in my address book under the name {name}",
            "add {email} to my contacts as {name}",
            "put {name} into the address book with the address {email}",
            "create a contact for {name} with the address {email}",
        ),
        done="{name} is in the address book now.",
        errors=("contact_exists", "address_taken"),
    )
    def add_contact(self, name: PersonName, email: NewAddress) -> Contact:
        """Add a person to the address book. Names and addresses are there only once.

        Args:
            name: The person's full name.
            email: The person's e-mail address.
        """
        if self.contacts.where(name=name) or name == self._fixed("inbox").owner:
            raise ToolError("contact_exists", f"{name} is in the address book, or owns it; only others can be added.")
        self._check_address(email)
        return self.contacts.add(name=name, email=email)

    @tool(
        "create",
        ask=(
            "prepare a draft to {email} with the subject {subject} and the text {text}",
            "write a draft to {email} with the subject {subject} that says {text}",
            "save a draft for {email} with the subject {subject} that reads {text}",
            "write a draft for {email} with the subject {subject}, saying {text}",
        ),
        done="A draft for {email} is ready.",
    )
    def write_draft(self, email: Email, subject: Subject, text: Sentence) -> MailDraft:
        """Write a draft, which can be sent later.

        Args:
            email: To whom it is written.
            subject: The subject line.
            text: What it says.
        """
        return self.drafts.add(
            email=email, subject=subject, text=text, edited=self.today, enclosure="", kilobytes=0, status="open"
        )

    @tool(
        "update",
        ask=(
            "change {contact_id}'s e-mail address in my contacts to {email}",
            "update {contact_id}'s entry in the address book to {email}",
            "replace {contact_id}'s e-mail address in the address book with {email}",
            "note {email} as {contact_id}'s new address in my contacts",
            "give {contact_id} the new address {email} in my address book",
        ),
        done="The address book has a new address for {name}.",
        errors=("same_address", "address_taken"),
    )
    def change_contact_address(self, contact_id: ContactId, email: NewAddress) -> Contact:
        """Change the e-mail address of a contact. Two contacts cannot have the same one.

        Args:
            contact_id: The contact to change.
            email: The new e-mail address.
        """
        contact = self.contacts[contact_id]
        if contact.email == email:
            raise ToolError("same_address", f"The address of {contact.name} is {email} already.")
        self._check_address(email)
        return self.contacts.change(contact, email=email)

    @tool(
        "update",
        ask=(
            "attach {attachment_id} to {draft_id}",
            "add {attachment_id} to {draft_id}",
            "copy {attachment_id} into {draft_id}",
            "put {attachment_id} into {draft_id}",
        ),
        done="The {enclosure} is attached to the draft for {email}.",
        errors=("draft_sent", "has_attachment"),
    )
    def attach_to_draft(self, draft_id: DraftId, attachment_id: AttachmentId) -> MailDraft:
        """Attach a copy of a mail's attachment to an unsent draft. A draft carries one attachment at most.

        Args:
            draft_id: The draft that gets it.
            attachment_id: The attachment to copy.
        """
        draft, attachment = self._open_draft(draft_id), self.attachments[attachment_id]
        if draft.enclosure:
            raise ToolError("has_attachment", f"Draft {draft_id} carries the {draft.enclosure}; there is room for one.")
        size = attachment.kilobytes
        return self.drafts.change(draft, enclosure=attachment.title, kilobytes=size, edited=self.today)

    @tool(
        "delete",
        ask=("delete {mail_id}", "throw away {mail_id}", "get rid of {mail_id}", "bin {mail_id}"),
        done="The mail from {author} is in the trash.",
        errors=("in_trash",),
    )
    def trash_mail(self, mail_id: MailId) -> MailMessage:
        """Put a mail in the trash folder.

        Args:
            mail_id: The mail to throw away.
        """
        mail = self._kept_mail(mail_id)
        return self.mails.change(mail, folder="trash")

    @tool(
        "transfer",
        ask=(
            "move {mail_id} to {mailbox_id}",
            "put {mail_id} into {mailbox_id}",
            "sort {mail_id} into {mailbox_id}",
            "transfer {mail_id} to {mailbox_id}",
        ),
        done="The mail from {author} is now in the {folder} folder.",
        errors=("already_there", "sent_only"),
    )
    def move_mail(self, mail_id: MailId, mailbox_id: MailboxId) -> MailMessage:
        """Move a mail to another mailbox folder, but not to the sent folder. Moving it out of the trash restores it.

        Args:
            mail_id: The mail to move.
            mailbox_id: The folder where it goes.
        """
        mail, mailbox = self.mails[mail_id], self.mailboxes[mailbox_id]
        if mail.folder == mailbox.folder:
            raise ToolError("already_there", f"Mail {mail_id} is in the {mail.folder} folder already.")
        if mailbox.folder == "sent":
            raise ToolError("sent_only", "Mails come into the sent folder only by being sent; choose another folder.")
        return self.mails.change(mail, folder=mailbox.folder)

    @tool(
        "send",
        ask=(
            "write {email} a mail with the subject {subject} and the text {text}",
            "send {email} a mail with the subject {subject} that says {text}",
            "mail {email} the text {text} with the subject {subject}",
            "send a mail with the subject {subject} to {email} that says {text}",
        ),
        done="The mail to {recipient} is on its way.",
    )
    def send_mail(self, email: Email, subject: Subject, text: Sentence) -> MailMessage:
        """Write and send a mail.

        Args:
            email: To whom it goes.
            subject: The subject line.
            text: What it says.
        """
        return self._send(email, subject, text, 2)

    @tool(
        "send",
        ask=(
            "answer {mail_id} with {text}",
            "reply {text} to {mail_id}",
            "send {text} as an answer to {mail_id}",
            "write {text} in reply to {mail_id}",
        ),
        done="{recipient} has got an answer.",
        errors=("in_trash", "own_mail", "already_answered"),
    )
    def reply_to_mail(self, mail_id: MailId, text: Sentence) -> MailMessage:
        """Answer a mail that came from somebody else. It can be answered once, and not from the trash.

        Args:
            mail_id: The mail to answer.
            text: What the answer says.
        """
        mail = self._kept_mail(mail_id)
        if mail.status == "sent":
            raise ToolError("own_mail", f"Mail {mail_id} went out from here; only mails that came in can be answered.")
        if mail.status == "answered":
            raise ToolError("already_answered", f"Mail {mail_id} was answered before.")
        self.mails.change(mail, status="answered")
        return self._send(mail.sender, f"Re: {mail.subject}", text, 3)

    @tool(
        "send",
        ask=(
            "forward {mail_id} to {email}",
            "send a copy of {mail_id} to {email}",
            "let {email} have a copy of {mail_id}",
            "share {mail_id} with {email}",
        ),
        done="A mail was forwarded to {recipient}.",
        errors=("in_trash",),
    )
    def forward_mail(self, mail_id: MailId, email: Email) -> MailMessage:
        """Forward a mail with its attachments. A mail in the trash must be moved to another folder first.

        Args:
            mail_id: The mail to forward.
            email: To whom it goes.
        """
        mail = self._kept_mail(mail_id)
        sent = self._send(email, f"Fwd: {mail.subject}", mail.text, mail.kilobytes)
        for copied in self.attachments.where(mail_id=mail_id):
            self.attachments.add(mail_id=sent.id, title=copied.title, kilobytes=copied.kilobytes)
        return sent

    @tool(
        "send",
        ask=("send {draft_id}", "send off {draft_id}", "send out {draft_id} as it is", "let {draft_id} go out"),
        done="The draft for {recipient} was sent.",
        errors=("draft_sent",),
    )
    def send_draft(self, draft_id: DraftId) -> MailMessage:
        """Send a draft as it is, with what is attached to it.

        Args:
            draft_id: The draft to send.
        """
        draft = self._open_draft(draft_id)
        self.drafts.change(draft, status="sent")
        sent = self._send(draft.email, draft.subject, draft.text, 2 + draft.kilobytes)
        if draft.enclosure:
            self.attachments.add(mail_id=sent.id, title=draft.enclosure, kilobytes=draft.kilobytes)
        return sent

    def _fixed(self, folder: str) -> Mailbox:
        """One of the folders that every mailbox has."""
        return self.mailboxes.where(folder=folder)[0]

    def _send(self, email: str, subject: str, text: str, kilobytes: int) -> MailMessage:
        box = self._fixed("sent")
        return self.mails.add(
            folder=box.folder, author=box.owner, sender=box.address, recipient=email,
            subject=subject, text=text, day=self.today, kilobytes=kilobytes, label="new", status="sent",
        )  # fmt: skip

    def _check_address(self, email: str) -> None:
        holders = self.contacts.where(email=email)
        if holders:
            raise ToolError("address_taken", f"In the address book, {email} is the address of {holders[0].name}.")

    def _kept_mail(self, mail_id: str) -> MailMessage:
        mail = self.mails[mail_id]
        if mail.folder == "trash":
            raise ToolError("in_trash", f"Mail {mail_id} is in the trash; it must be moved to another folder first.")
        return mail

    def _open_draft(self, draft_id: str) -> MailDraft:
        draft = self.drafts[draft_id]
        if draft.status != "open":
            raise ToolError("draft_sent", f"Draft {draft_id} was sent; only unsent drafts can be changed or sent.")
        return draft

    @classmethod
    def populate(cls, draw: Draw, cast: Cast, today: str, size: int) -> Iterator[Record]:
        user = cast.user
        for person in cast.others[:4]:  # the owner writes to others, and the last two are strangers
            yield Contact(draw.id("con"), person.name, person.email)
        own = draw.sample(_OWN_FOLDERS, min(1 + size, 5))
        boxes = {name: Mailbox(draw.id("mbx"), name, user.name, user.email) for name in (*_FIXED_FOLDERS, *own)}
        yield from boxes.values()
        received = [boxes[name] for name in (*["inbox"] * 6, "archive", "trash", *own)]
        mails = []
        for at, person in enumerate(cast.people):
            count = 3 * size + draw.index(2) if at < 5 else 1 + draw.index(2)  # strangers write less
            for topic in draw.sample(TOPICS, count):
                box, recipient = draw.choice(received), user
                status: MailStatus = draw.choice(("unread", "unread", "read", "answered"))
                if person is user:
                    box, recipient, status = boxes["sent"], draw.choice(cast.others), "sent"
                mail = MailMessage(
                    draw.id("mai"), box.folder, person.name, person.email, recipient.email, topic,
                    draw.choice(SENTENCES), draw.date(today, -60, -1), draw.integer(60, 900), draw.choice(_USUAL),
                    status,
                )  # fmt: skip
                mails.append(mail)
        yield from mails
        for mail in draw.sample(mails, 4 * size):
            for title in draw.sample(TITLES, 2 + draw.index(2)):
                yield Attachment(draw.id("att"), mail.id, title, draw.integer(5, mail.kilobytes // 3))
        for person in draw.sample(cast.others[:4], 3):
            for topic in draw.sample(TOPICS, 1 + size + draw.index(2)):
                enclosed = draw.chance(0.2)
                state: DraftStatus = draw.choice(("open", "open", "sent"))
                yield MailDraft(
                    draw.id("dra"), person.email, topic, draw.choice(SENTENCES), draw.date(today, -30, -1),
                    draw.choice(TITLES) if enclosed else "", draw.integer(5, 400) if enclosed else 0, state,
                )  # fmt: skip
