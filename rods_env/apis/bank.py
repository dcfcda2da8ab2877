"""A bank: account holders, accounts, cards, payees, transactions, standing orders, disputes and statements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from rods_env.apis.api import Api, Record, Table, tool
from rods_env.apis.draw import Draw, day_after
from rods_env.apis.kinds import Amount, City, Date, Email, Kind, PersonName, Ref
from rods_env.apis.lexicon import CITIES, Cast
from rods_env.errors import ToolError

PAYEES = {
    "energy": ("water works", "solar power company", "gas supplier", "wind farm", "heating cooperative"),
    "insurance": ("health fund", "car insurer", "home insurer", "travel insurer", "pet insurer"),
    "sports": ("swimming club", "tennis club", "rowing club", "climbing hall", "riding school"),
    "charity": ("animal shelter", "food bank", "lifeboat fund", "youth orchestra", "forest trust"),
    "education": ("language school", "music school", "driving school", "evening college", "art academy"),
    "media": ("daily newspaper", "film channel", "radio station", "sports magazine", "book club"),
}
RATES = {"savings": 0.025, "joint": 0.01, "student": 0.015}
DISPUTE_DAYS = 60

AccountType = Literal["current", "savings", "joint", "student", "business"]
CardType = Literal["debit", "credit", "virtual", "prepaid"]
DisputeReason = Literal["charged_twice", "not_authorised", "too_high", "sent_by_mistake"]

HolderId = Annotated[str, Ref("holder")]
AccountId = Annotated[str, Ref("account")]
CardId = Annotated[str, Ref("card")]
PayeeId = Annotated[str, Ref("payee")]
TransactionId = Annotated[str, Ref("transaction")]
StandingOrderId = Annotated[str, Ref("standing_order")]
Sector = Annotated[str, Kind("payee_sector", "What a payee does.", words=tuple(PAYEES))]
PayeeName = Annotated[str, Kind("payee_name", "What a payee is called.")]
Balance = Annotated[float, Kind("balance", "The money on an account, in euros.", unit="euros", ge=0)]
AmountOrAll = Annotated[float, Kind("amount", "An amount of money in euros; 0 stands for all.", unit="euros", ge=0)]
Years = Annotated[int, Kind("years", "A number of years.", unit="years", ge=1, le=30, examples=(2, 3, 4, 5, 6))]

ACCOUNT_TYPES: tuple[AccountType, ...] = ("current", "savings", "joint", "student", "business")
CARD_TYPES: tuple[CardType, ...] = ("debit", "credit", "virtual", "prepaid")
REASONS: tuple[DisputeReason, ...] = ("charged_twice", "not_authorised", "too_high", "sent_by_mistake")


class AccountHolder(Record, frozen=True):
    """A person who has accounts at the bank."""

    CALLED: ClassVar[str] = "{name}"
    NOUN: ClassVar[str] = "account holder"

    id: HolderId
    name: PersonName
    email: Email
    city: City


class Account(Record, frozen=True):
    """An account of one holder; nobody has two of the same type."""

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "account_type": "{} ~",
        "balance": ("~ with the lowest balance", "~ with the highest balance"),
        "opened": ("oldest ~", "newest ~"),
    }

    id: AccountId
    holder_id: HolderId
    holder: PersonName
    account_type: AccountType
    balance: Balance
    opened: Date
    status: Literal["open", "closed"]


class Card(Record, frozen=True):
    """A card that spends the money of an account."""

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "card_type": "{} ~",
        "spending_limit": ("~ with the lowest limit", "~ with the highest limit"),
        "expires": ("~ with the earliest expiry date", "~ with the latest expiry date"),
    }

    id: CardId
    account_id: AccountId
    holder: PersonName
    card_type: CardType
    spending_limit: Amount
    expires: Date
    status: Literal["active", "frozen"]


class Payee(Record, frozen=True):
    """A company or club that can be paid."""

    CALLED: ClassVar[str] = "the {payee}"

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "payee": "{}",
    }

    id: PayeeId
    payee: PayeeName
    sector: Sector
    city: City
    customers: int


class Transaction(Record, frozen=True):
    """A payment from an account to a payee."""

    NOUN: ClassVar[str] = "payment"

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "payee": "~ to the {}",
        "amount": ("smallest ~", "largest ~"),
        "booked": ("oldest ~", "latest ~"),
    }

    id: TransactionId
    account_id: AccountId
    payee: PayeeName
    amount: Amount
    booked: Date
    status: Literal["booked", "disputed"]


class StandingOrder(Record, frozen=True):
    """A payment that leaves an account every month."""

    NOUN: ClassVar[str] = "standing order"

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "payee": "~ to the {}",
        "amount": ("smallest ~", "largest ~"),
        "next_payment": ("~ due first", "~ due last"),
    }

    id: StandingOrderId
    account_id: AccountId
    payee_id: PayeeId
    payee: PayeeName
    amount: Amount
    next_payment: Date


class Dispute(Record, frozen=True):
    """An objection to a transaction."""

    id: Annotated[str, Ref("dispute")]
    transaction_id: TransactionId
    payee: PayeeName
    amount: Amount
    reason: DisputeReason
    decision_date: Date


class MoneyTransfer(Record, frozen=True):
    """Money that went from one account to another."""

    NOUN: ClassVar[str] = "transfer"

    id: Annotated[str, Ref("money_transfer")]
    from_account_id: AccountId
    to_account_id: AccountId
    sender: PersonName
    from_type: AccountType
    receiver: PersonName
    to_type: AccountType
    amount: Amount
    booked: Date


class Statement(Record, frozen=True):
    """A statement that was sent."""

    id: Annotated[str, Ref("statement")]
    account_id: AccountId
    holder: PersonName
    account_type: AccountType
    balance: Balance
    email: Email


class Interest(Record, frozen=True):
    """What an account will earn."""

    interest: Amount


class Bank(Api):
    """A bank, as its clerk sees it."""

    NAME: ClassVar[str] = "bank"

    holders = Table(AccountHolder, "hol")
    accounts = Table(Account, "acc")
    cards = Table(Card, "crd")
    payees = Table(Payee, "pay")
    transactions = Table(Transaction, "trx")
    standing_orders = Table(StandingOrder, "sto")
    disputes = Table(Dispute, "dis")
    transfers = Table(MoneyTransfer, "mtr")
    statements = Table(Statement, "stm")

    @tool(
        "lookup",
        ask=(
            "look up {name} at the bank",
            "find {name} among the bank's account holders",
            "check what the bank has on record about {name}",
            "look up the bank's records on {name}",
        ),
        rows="{name}",
        errors=("no_such_holder",),
    )
    def find_account_holder(self, name: PersonName) -> AccountHolder:
        """Find an account holder by name.

        Args:
            name: The account holder's full name.
        """
        found = self.holders.where(name=name)
        if not found:
            raise ToolError("no_such_holder", f"No account holder is called {name!r}.")
        return found[0]

    @tool(
        "search",
        ask=(
            "show me {holder_id}'s bank accounts",
            "list {holder_id}'s accounts",
            "check {holder_id}'s accounts at the bank",
            "tell me which bank accounts belong to {holder_id}",
        ),
        rows="{holder_id}'s ~",
    )
    def list_accounts(self, holder_id: HolderId) -> list[Account]:
        """List the open accounts of an account holder.

        Args:
            holder_id: The account holder whose accounts are wanted.
        """
        self.holders[holder_id]
        return self.accounts.where(lambda a: a.holder_id == holder_id and a.status == "open")

    @tool(
        "search",
        ask=(
            "show me the cards for {account_id}",
            "list the cards for {account_id}",
            "tell me which cards belong to {account_id}",
            "check which cards there are for {account_id}",
        ),
        rows="the ~ for {account_id}",
    )
    def list_cards(self, account_id: AccountId) -> list[Card]:
        """List the cards of an account.

        Args:
            account_id: The account whose cards are wanted.
        """
        self.accounts[account_id]
        return self.cards.where(account_id=account_id)

    @tool(
        "search",
        ask=(
            "show me the payments from {account_id}",
            "list what was paid from {account_id}",
            "go through the payments from {account_id}",
            "tell me what has been paid from {account_id} so far",
        ),
        rows="the ~ from {account_id}",
    )
    def list_transactions(self, account_id: AccountId) -> list[Transaction]:
        """List the payments that were made from an account.

        Args:
            account_id: The account that paid.
        """
        self.accounts[account_id]
        return self.transactions.where(account_id=account_id)

    @tool(
        "search",
        ask=(
            "show me the standing orders on {account_id}",
            "tell me which standing orders run on {account_id}",
            "list what {account_id} pays every month",
            "go through the standing orders on {account_id}",
        ),
        rows="the ~ on {account_id}",
    )
    def list_standing_orders(self, account_id: AccountId) -> list[StandingOrder]:
        """List the standing orders of an account.

        Args:
            account_id: The account that pays.
        """
        self.accounts[account_id]
        return self.standing_orders.where(account_id=account_id)

    @tool(
        "search",
        ask=(
            "list the payees in the {sector} sector in {city}",
            "find {sector} payees in {city}",
            "show me which {sector} payees there are in {city}",
            "look for payees from the {sector} sector in {city}",
        ),
        rows="the ~ in the {sector} sector in {city}",
    )
    def search_payees(self, city: City, sector: Sector) -> list[Payee]:
        """List the payees of a city that belong to a sector.

        Args:
            city: The city where the payee is.
            sector: What the payee does.
        """
        return self.payees.where(city=city, sector=sector)

    @tool(
        "lookup",
        ask=(
            "look up the dispute over {transaction_id}",
            "tell me when the dispute over {transaction_id} will be decided",
            "check how the dispute over {transaction_id} stands",
        ),
        rows="the dispute over {transaction_id}",
        errors=("not_disputed",),
    )
    def check_dispute(self, transaction_id: TransactionId) -> Dispute:
        """Get the dispute over a transaction, with the date of its decision.

        Args:
            transaction_id: The disputed transaction.
        """
        self.transactions[transaction_id]
        found = self.disputes.where(transaction_id=transaction_id)
        if not found:
            raise ToolError("not_disputed", f"Nobody has disputed transaction {transaction_id}.")
        return found[0]

    @tool(
        "compute",
        ask=(
            "work out the interest on {account_id} over {years}",
            "tell me how much interest {account_id} will earn in {years}",
            "calculate how much interest {account_id} brings in {years}",
            "estimate what {account_id} will earn in interest over {years}",
        ),
        rows="the interest on {account_id} over {years}",
        errors=("no_interest",),
    )
    def estimate_interest(self, account_id: AccountId, years: Years) -> Interest:
        """Work out the compound interest on what is on an account now. Current and business accounts earn none.

        Args:
            account_id: The account that earns interest.
            years: For how many years.
        """
        account = self.accounts[account_id]
        rate = RATES.get(account.account_type, 0.0)
        interest = round(account.balance * ((1 + rate) ** years - 1), 2)
        if interest <= 0:
            raise ToolError("no_interest", "Only savings, joint and student accounts with money on them earn interest.")
        return Interest(interest=interest)

    @tool(
        "create",
        ask=(
            "set up a standing order for {amount} from {account_id} to {payee_id}",
            "have {account_id} pay {amount} to {payee_id} every month",
            "arrange a monthly payment of {amount} from {account_id} to {payee_id}",
            "send {amount} every month from {account_id} to {payee_id}",
        ),
        done="A standing order for {amount} to the {payee} is set up.",
        errors=("account_closed", "already_set_up"),
    )
    def set_up_standing_order(self, account_id: AccountId, payee_id: PayeeId, amount: Amount) -> StandingOrder:
        """Set up a monthly payment. An account has at most one standing order to each payee.

        Args:
            account_id: The account that pays.
            payee_id: The payee who gets the money.
            amount: How much is paid each month, in euros.
        """
        self._open_account(account_id)
        payee = self.payees[payee_id]
        if self.standing_orders.where(account_id=account_id, payee_id=payee_id):
            raise ToolError("already_set_up", f"Account {account_id} already pays the {payee.payee} every month.")
        return self.standing_orders.add(
            account_id=account_id, payee_id=payee_id, payee=payee.payee, amount=amount,
            next_payment=day_after(self.today, 30),
        )  # fmt: skip

    @tool(
        "create",
        ask=(
            "dispute {transaction_id} because it was {reason}",
            "open a dispute over {transaction_id} because it was {reason}",
            "contest {transaction_id}, since it was {reason}",
            "object to {transaction_id} because it was {reason}",
        ),
        done="The payment of {amount} to the {payee} is in dispute.",
        errors=("already_disputed", "too_old"),
    )
    def dispute_transaction(self, transaction_id: TransactionId, reason: DisputeReason) -> Dispute:
        """Dispute a transaction of the last 60 days. Each transaction can be disputed once.

        Args:
            transaction_id: The transaction to dispute.
            reason: What is wrong with it.
        """
        transaction = self.transactions[transaction_id]
        if transaction.status == "disputed":
            raise ToolError("already_disputed", f"Transaction {transaction_id} is already in dispute.")
        if transaction.booked < day_after(self.today, -DISPUTE_DAYS):
            raise ToolError("too_old", f"Only transactions of the last {DISPUTE_DAYS} days can be disputed.")
        self.transactions.change(transaction, status="disputed")
        return self.disputes.add(
            transaction_id=transaction_id, payee=transaction.payee, amount=transaction.amount, reason=reason,
            decision_date=day_after(self.today, 14),
        )  # fmt: skip

    @tool(
        "update",
        ask=("freeze {card_id}", "block {card_id}", "put a freeze on {card_id}", "stop all payments with {card_id}"),
        done="{holder}'s {card_type} card is frozen.",
        errors=("already_frozen",),
    )
    def freeze_card(self, card_id: CardId) -> Card:
        """Freeze a card, so that nobody can pay with it.

        Args:
            card_id: The card to freeze.
        """
        card = self.cards[card_id]
        if card.status == "frozen":
            raise ToolError("already_frozen", f"Card {card_id} is already frozen.")
        return self.cards.change(card, status="frozen")

    @tool(
        "update",
        ask=("unfreeze {card_id}", "lift the freeze on {card_id}", "unblock {card_id}", "make {card_id} usable again"),
        done="{holder}'s {card_type} card can be used again.",
        errors=("not_frozen",),
    )
    def unfreeze_card(self, card_id: CardId) -> Card:
        """Make a frozen card usable again.

        Args:
            card_id: The frozen card.
        """
        card = self.cards[card_id]
        if card.status != "frozen":
            raise ToolError("not_frozen", f"Card {card_id} is not frozen.")
        return self.cards.change(card, status="active")

    @tool(
        "delete",
        ask=("cancel {standing_order_id}", "stop {standing_order_id}", "put an end to {standing_order_id}"),
        done="The standing order to the {payee} is cancelled.",
    )
    def cancel_standing_order(self, standing_order_id: StandingOrderId) -> StandingOrder:
        """Cancel a standing order.

        Args:
            standing_order_id: The standing order to cancel.
        """
        return self.standing_orders.remove(self.standing_orders[standing_order_id])

    @tool(
        "delete",
        ask=("close {account_id}", "shut down {account_id}", "have {account_id} closed"),
        done="{holder}'s {account_type} account is closed.",
        errors=("account_closed", "not_empty", "has_standing_orders"),
    )
    def close_account(self, account_id: AccountId) -> Account:
        """Close an account that has no money on it and no standing orders.

        Args:
            account_id: The account to close.
        """
        account = self._open_account(account_id)
        if account.balance > 0:
            raise ToolError("not_empty", f"There are {account.balance} euros on account {account_id}; move them first.")
        if self.standing_orders.where(account_id=account_id):
            raise ToolError("has_standing_orders", f"Account {account_id} has standing orders; cancel them first.")
        return self.accounts.change(account, status="closed")

    @tool(
        "transfer",
        ask=(
            "transfer {amount} from {from_account_id} to {to_account_id}",
            "move {amount} from {from_account_id} to {to_account_id}",
            "move everything from {from_account_id} to {to_account_id}",
            "empty {from_account_id} into {to_account_id}",
        ),
        done="{amount} went from {sender}'s {from_type} account to {receiver}'s {to_type} account.",
        errors=("account_closed", "same_account", "insufficient_funds"),
    )
    def transfer_money(
        self, from_account_id: AccountId, to_account_id: AccountId, amount: AmountOrAll = 0.0
    ) -> MoneyTransfer:
        """Transfer an amount, or all there is, from one account to another account of this bank.

        Args:
            from_account_id: The account that the money leaves.
            to_account_id: The account that gets the money.
            amount: How much, in euros; when left out or 0, everything that is on the account.
        """
        source, target = self._open_account(from_account_id), self._open_account(to_account_id)
        if source.id == target.id:
            raise ToolError("same_account", "The money must go to another account than the one it comes from.")
        amount = amount or source.balance
        self._withdraw(source, amount)
        self.accounts.change(target, balance=round(target.balance + amount, 2))
        return self.transfers.add(
            from_account_id=source.id, to_account_id=target.id, sender=source.holder, from_type=source.account_type,
            receiver=target.holder, to_type=target.account_type, amount=amount, booked=self.today,
        )  # fmt: skip

    @tool(
        "transfer",
        ask=(
            "pay {amount} to {payee_id} with {card_id}",
            "use {card_id} to pay {amount} to {payee_id}",
            "make a card payment of {amount} to {payee_id} with {card_id}",
        ),
        done="A card payment of {amount} went to the {payee}.",
        errors=("card_frozen", "over_limit", "account_closed", "insufficient_funds"),
    )
    def pay_by_card(self, card_id: CardId, payee_id: PayeeId, amount: Amount) -> Transaction:
        """Pay a payee with a card that is not frozen. The money leaves the card's account.

        Args:
            card_id: The card to pay with.
            payee_id: The payee who gets the money.
            amount: How much, in euros; at most the card's limit.
        """
        card, payee = self.cards[card_id], self.payees[payee_id]
        if card.status == "frozen":
            raise ToolError("card_frozen", f"Card {card_id} is frozen; unfreeze it first.")
        if amount > card.spending_limit:
            raise ToolError("over_limit", f"The limit of card {card_id} is {card.spending_limit} euros.")
        self._withdraw(self._open_account(card.account_id), amount)
        return self.transactions.add(
            account_id=card.account_id, payee=payee.payee, amount=amount, booked=self.today, status="booked"
        )

    @tool(
        "send",
        ask=(
            "send a statement for {account_id} to {email}",
            "mail {email} the statement for {account_id}",
            "let {email} have a statement for {account_id}",
            "send {email} a bank statement for {account_id}",
        ),
        done="A statement of {holder}'s {account_type} account went to {email}.",
        errors=("already_sent",),
    )
    def email_statement(self, account_id: AccountId, email: Email) -> Statement:
        """Send a statement of an account by e-mail. It goes out again only when the balance has changed.

        Args:
            account_id: The account that the statement is about.
            email: Where it goes.
        """
        a = self.accounts[account_id]
        if self.statements.where(lambda s: s.account_id == a.id and s.email == email and s.balance == a.balance):
            raise ToolError("already_sent", f"{email} has had this statement of account {account_id}.")
        return self.statements.add(
            account_id=a.id, holder=a.holder, account_type=a.account_type, balance=a.balance, email=email
        )

    def _open_account(self, account_id: str) -> Account:
        account = self.accounts[account_id]
        if account.status == "closed":
            raise ToolError("account_closed", f"Account {account_id} is closed; this needs an open account.")
        return account

    def _withdraw(self, account: Account, amount: float) -> None:
        if account.balance < amount or not amount:
            raise ToolError("insufficient_funds", f"There are only {account.balance} euros on account {account.id}.")
        self.accounts.change(account, balance=round(account.balance - amount, 2))

    @classmethod
    def populate(cls, draw: Draw, cast: Cast, today: str, size: int) -> Iterator[Record]:
        payees = []
        for sector in draw.sample(tuple(PAYEES), 1 + size):
            here, there = draw.sample(CITIES, 2)
            for place, payee in enumerate(draw.shuffled(PAYEES[sector])):
                payees.append(Payee(draw.id("pay"), payee, sector, here if place < 3 else there, draw.integer(20, 900)))
        yield from payees
        for n, p in enumerate(cast.people[: 2 + size]):
            holder = AccountHolder(draw.id("hol"), p.name, p.email, p.city)
            yield holder
            types = draw.sample(ACCOUNT_TYPES, 3 if n == 0 else 2 + draw.index(2))
            for account_type in types:
                likely = 1.0 if account_type == types[0] else 0.25  # everybody has one account that is much used
                balance = 0.0 if draw.chance(0.2) else draw.amount(40, 1500)
                account = Account(
                    draw.id("acc"), holder.id, p.name, account_type, balance, draw.date(today, -3000, -100), "open"
                )
                yield account
                if draw.chance(likely):
                    for card_type in draw.sample(CARD_TYPES, 2 + draw.chance(0.3)):
                        yield Card(
                            draw.id("crd"), account.id, p.name, card_type, draw.amount(100, 900),
                            draw.date(today, 60, 1200), "frozen" if draw.chance(0.35) else "active",
                        )  # fmt: skip
                if draw.chance(likely):
                    for to in draw.sample(payees, 2 * size + 1):
                        disputed = draw.chance(0.2)
                        transaction = Transaction(
                            draw.id("trx"), account.id, to.payee, draw.amount(4, 250), draw.date(today, -75, -3),
                            "disputed" if disputed else "booked",
                        )  # fmt: skip
                        yield transaction
                        if disputed:
                            yield Dispute(
                                draw.id("dis"), transaction.id, to.payee, transaction.amount, draw.choice(REASONS),
                                draw.date(today, 1, 12),
                            )  # fmt: skip
                if draw.chance(0.4):
                    for to in draw.sample(payees, 2):
                        yield StandingOrder(
                            draw.id("sto"), account.id, to.id, to.payee, draw.amount(5, 120), draw.date(today, 1, 30)
                        )
