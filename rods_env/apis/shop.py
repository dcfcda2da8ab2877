"""A web shop: customers, products, orders, shipments, refunds, vouchers and reviews."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from rods_env.apis.api import Api, Record, Table, tool
from rods_env.apis.draw import Draw, day_after
from rods_env.apis.kinds import Amount, City, Date, Email, Kind, PersonName, Quantity, Rating, Ref
from rods_env.apis.lexicon import CITIES, Cast
from rods_env.errors import ToolError

CATEGORIES = {
    "lamps": ("blue desk lamp", "paper lantern", "brass floor lamp", "reading light", "night light"),
    "kitchen": ("copper kettle", "bread knife", "coffee grinder", "pasta pot", "egg timer"),
    "garden": ("garden hose", "watering can", "bird feeder", "folding chair", "rose clippers"),
    "sports": ("yoga mat", "jump rope", "tennis racket", "climbing belt", "swim goggles"),
    "office": ("fountain pen", "paper tray", "label printer", "standing desk", "wall calendar"),
    "toys": ("wooden train", "chess set", "kite", "puppet theatre", "marble run"),
}

OPINIONS = (  # each fits any number of stars
    "I ordered it for my sister.", "It arrived within three days.", "The colour is as in the picture.",
    "I have had it for two months now.", "It was a birthday present.", "We use it nearly every day.",
    "It is my second one.", "The box was opened already.",
)  # fmt: skip

CustomerId = Annotated[str, Ref("customer")]
ProductId = Annotated[str, Ref("product")]
OrderId = Annotated[str, Ref("order")]
VoucherId = Annotated[str, Ref("voucher")]
ReviewId = Annotated[str, Ref("review")]
Category = Annotated[str, Kind("shop_category", "A category of products.", words=tuple(CATEGORIES))]
Item = Annotated[str, Kind("item", "What a product is called.")]
Opinion = Annotated[
    str, Kind("opinion", "What a customer thinks of a product.", words=OPINIONS, quote=True, exchangeable=True)
]
OrderStatus = Literal["open", "shipped", "delivered", "cancelled", "returned", "refunded"]
Reason = Literal["broken", "incomplete", "too_small", "not_as_described"]


class Customer(Record, frozen=True):
    """A customer of the shop."""

    CALLED: ClassVar[str] = "{name}"

    id: CustomerId
    name: PersonName
    email: Email
    city: City


class Product(Record, frozen=True):
    """A product on sale."""

    CALLED: ClassVar[str] = "the {item}"

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "item": "{}",
        "price": ("cheapest ~", "most expensive ~"),
        "stock": ("~ with the lowest stock", "~ with the highest stock"),
    }

    id: ProductId
    item: Item
    category: Category
    price: Amount
    stock: int


class Order(Record, frozen=True):
    """An order of one product by one customer."""

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "item": "~ for the {}",
        "placed": ("oldest ~", "latest ~"),
        "total": ("cheapest ~", "most expensive ~"),
    }

    id: OrderId
    customer_id: CustomerId
    product_id: ProductId
    item: Item
    quantity: Quantity
    total: Amount
    placed: Date
    status: OrderStatus


class Shipment(Record, frozen=True):
    """Where the parcel of an order is."""

    order_id: OrderId
    city: str  # no kind: nobody wants a thing done in the city of a parcel
    arrival_date: Date


class Refund(Record, frozen=True):
    """Money that went back for an order."""

    id: Annotated[str, Ref("refund")]
    order_id: OrderId
    item: Item
    amount: Amount


class Voucher(Record, frozen=True):
    """A voucher that takes an amount off one open order."""

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "worth": ("smallest ~", "biggest ~"),
        "expires": ("~ that runs out first", "~ that lasts longest"),
    }

    id: VoucherId
    customer_id: CustomerId
    worth: Amount
    expires: Date


class Review(Record, frozen=True):
    """What a customer thinks of a product."""

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {"author": "~ that {} wrote", "rating": ("worst ~", "best ~")}

    id: ReviewId
    product_id: ProductId
    item: Item
    author: PersonName
    rating: Rating
    text: Opinion


class Quote(Record, frozen=True):
    """What a purchase would cost."""

    total: Amount


class Invoice(Record, frozen=True):
    """An invoice that was sent."""

    id: Annotated[str, Ref("invoice")]
    order_id: OrderId
    item: Item
    email: Email


class Shop(Api):
    """A web shop, as its customer service sees it."""

    NAME: ClassVar[str] = "shop"

    customers = Table(Customer, "cus")
    products = Table(Product, "pro")
    orders = Table(Order, "ord")
    refunds = Table(Refund, "ref")
    vouchers = Table(Voucher, "vou")
    reviews = Table(Review, "rev")
    invoices = Table(Invoice, "inv")

    @tool(
        "lookup",
        ask=(
            "look up the shop account of {name}",
            "find {name} among the shop's customers",
            "check which shop account {name} has",
            "look up {name} in the shop's list of customers",
        ),
        rows="{name}",
        errors=("no_such_customer",),
    )
    def find_customer(self, name: PersonName) -> Customer:
        """Find a customer by name.

        Args:
            name: The customer's full name.
        """
        found = self.customers.where(name=name)
        if not found:
            raise ToolError("no_such_customer", f"No customer is called {name!r}.")
        return found[0]

    @tool(
        "search",
        ask=(
            "show me what the shop has under {category}",
            "list the products in the {category} category",
            "tell me what there is to buy in the {category} category",
            "go through the {category} section of the shop",
        ),
        rows="the ~ in the {category} category",
    )
    def search_products(self, category: Category) -> list[Product]:
        """List the products of a category.

        Args:
            category: The category's name.
        """
        return self.products.where(category=category)

    @tool(
        "search",
        ask=(
            "show me {customer_id}'s orders",
            "list {customer_id}'s shop orders",
            "pull up {customer_id}'s orders",
            "go through {customer_id}'s orders at the shop",
        ),
        rows="{customer_id}'s ~",
    )
    def list_orders(self, customer_id: CustomerId) -> list[Order]:
        """List all orders of a customer.

        Args:
            customer_id: The customer whose orders are wanted.
        """
        self.customers[customer_id]
        return self.orders.where(customer_id=customer_id)

    @tool(
        "search",
        ask=(
            "show me {customer_id}'s vouchers",
            "go through {customer_id}'s vouchers",
            "list {customer_id}'s vouchers",
            "check which vouchers belong to {customer_id}",
        ),
        rows="{customer_id}'s ~",
    )
    def list_vouchers(self, customer_id: CustomerId) -> list[Voucher]:
        """List the unused vouchers of a customer.

        Args:
            customer_id: The customer whose vouchers are wanted.
        """
        self.customers[customer_id]
        return self.vouchers.where(customer_id=customer_id)

    @tool(
        "search",
        ask=(
            "show me the reviews of {product_id}",
            "tell me what people wrote about {product_id}",
            "list the reviews for {product_id}",
            "check what customers think of {product_id}",
        ),
        rows="the ~ for {product_id}",
    )
    def list_reviews(self, product_id: ProductId) -> list[Review]:
        """List the reviews of a product.

        Args:
            product_id: The product that was reviewed.
        """
        self.products[product_id]
        return self.reviews.where(product_id=product_id)

    @tool(
        "lookup",
        ask=(
            "tell me where {order_id} is right now",
            "check when {order_id} will arrive",
            "track the parcel for {order_id}",
            "find out how far {order_id} has come",
        ),
        rows="the parcel for {order_id}",
        errors=("not_shipped",),
    )
    def track_shipment(self, order_id: OrderId) -> Shipment:
        """Say where the parcel of a shipped order is and when it arrives.

        Args:
            order_id: The order to track.
        """
        order = self.orders[order_id]
        if order.status not in ("shipped", "delivered"):
            raise ToolError("not_shipped", f"Order {order_id} is {order.status}; only shipped orders can be tracked.")
        city = self.customers[order.customer_id].city
        hub = city if order.status == "delivered" else CITIES[(CITIES.index(city) + len(order.item)) % len(CITIES)]
        return Shipment(order_id=order_id, city=hub, arrival_date=day_after(order.placed, 9))

    @tool(
        "compute",
        ask=(
            "work out what {quantity} pieces of {product_id} would cost",
            "tell me the price of {quantity} pieces of {product_id}",
            "calculate the total for {quantity} pieces of {product_id}",
            "check how much {product_id} would cost if I took {quantity} pieces",
        ),
        rows="the price of {quantity} pieces of {product_id}",
        errors=("out_of_stock",),
    )
    def quote_price(self, product_id: ProductId, quantity: Quantity) -> Quote:
        """Work out what a number of pieces costs. From three pieces on there is a tenth off.

        Args:
            product_id: The product to price.
            quantity: How many pieces.
        """
        product = self.products[product_id]
        if product.stock < quantity:
            raise ToolError("out_of_stock", f"Only {product.stock} pieces of the {product.item} are left.")
        return Quote(total=self._total(product, quantity))

    @tool(
        "create",
        ask=(
            "order {quantity} pieces of {product_id} for {customer_id}",
            "buy {quantity} pieces of {product_id} for {customer_id}",
            "get {customer_id} {quantity} pieces of {product_id}",
            "place an order for {quantity} pieces of {product_id} in {customer_id}'s name",
        ),
        done="An order for the {item} was placed.",
        errors=("out_of_stock",),
    )
    def place_order(self, customer_id: CustomerId, product_id: ProductId, quantity: Quantity) -> Order:
        """Place an order for a customer.

        Args:
            customer_id: The customer who buys.
            product_id: The product to buy.
            quantity: How many pieces.
        """
        self.customers[customer_id]
        product = self.products[product_id]
        if product.stock < quantity:
            raise ToolError("out_of_stock", f"Only {product.stock} pieces of the {product.item} are left.")
        self.products.change(product, stock=product.stock - quantity)
        return self.orders.add(
            customer_id=customer_id, product_id=product_id, item=product.item, quantity=quantity,
            total=self._total(product, quantity), placed=self.today, status="open",
        )  # fmt: skip

    @tool(
        "create",
        ask=(
            "publish {customer_id}'s review of {product_id}: {rating} stars, {text}",
            "post a {rating}-star review of {product_id} for {customer_id}, saying {text}",
            "write a review of {product_id} in {customer_id}'s name: {rating} stars, {text}",
            "review {product_id} for {customer_id} with {rating} stars, saying {text}",
        ),
        done="{author}'s review of the {item} is online.",
        errors=("already_reviewed", "not_bought"),
    )
    def write_review(self, product_id: ProductId, customer_id: CustomerId, rating: Rating, text: Opinion) -> Review:
        """Publish a customer's review of a product that was shipped to them. Each customer may review a product once.

        Args:
            product_id: The product that is reviewed.
            customer_id: The customer who writes.
            rating: Stars from 1 to 5.
            text: What the customer says.
        """
        product, author = self.products[product_id], self.customers[customer_id].name
        bought = self.orders.where(product_id=product_id, customer_id=customer_id)
        if all(order.status in ("open", "cancelled") for order in bought):
            raise ToolError("not_bought", f"{author} has not received the {product.item}; wait until it is shipped.")
        if self.reviews.where(product_id=product_id, author=author):
            raise ToolError("already_reviewed", f"{author} has reviewed the {product.item} before.")
        return self.reviews.add(product_id=product_id, item=product.item, author=author, rating=rating, text=text)

    @tool(
        "update",
        ask=(
            "change {order_id} to {quantity} pieces",
            "change the number of pieces in {order_id} to {quantity}",
            "update {order_id} so that it is for {quantity} pieces",
            "make sure {order_id} is for {quantity} pieces",
        ),
        done="The quantity in the order for the {item} is now {quantity}.",
        errors=("not_open", "same_quantity"),
    )
    def change_quantity(self, order_id: OrderId, quantity: Quantity) -> Order:
        """Change how many pieces an open order is for.

        Args:
            order_id: The order to change.
            quantity: The new number of pieces.
        """
        order = self._open_order(order_id)
        if order.quantity == quantity:
            raise ToolError("same_quantity", f"Order {order_id} is already for {quantity} pieces.")
        total = self._total(self.products[order.product_id], quantity)
        return self.orders.change(order, quantity=quantity, total=total)

    @tool(
        "update",
        ask=(
            "use {voucher_id} on {order_id}",
            "redeem {voucher_id} on {order_id}",
            "apply {voucher_id} to {order_id}",
            "take {voucher_id} off what {order_id} costs",
        ),
        done="A voucher was used on the order for the {item}.",
        errors=("not_open", "not_yours", "worth_too_much"),
    )
    def apply_voucher(self, order_id: OrderId, voucher_id: VoucherId) -> Order:
        """Take a voucher's worth off an open order of the same customer. The voucher is used up.

        Args:
            order_id: The open order.
            voucher_id: The voucher to use.
        """
        order, voucher = self._open_order(order_id), self.vouchers[voucher_id]
        if voucher.customer_id != order.customer_id:
            raise ToolError("not_yours", f"Voucher {voucher_id} belongs to another customer.")
        if voucher.worth >= order.total:
            raise ToolError("worth_too_much", f"Voucher {voucher_id} is worth more than the order.")
        self.vouchers.remove(voucher)
        return self.orders.change(order, total=round(order.total - voucher.worth, 2))

    @tool(
        "update",
        ask=(
            "send {order_id} back because it is {reason}",
            "return {order_id} because it is {reason}",
            "register {order_id} as a return because it is {reason}",
            "arrange a return of {order_id}, which is {reason}",
        ),
        done="The {item} is on its way back to the shop.",
        errors=("not_delivered",),
    )
    def return_order(self, order_id: OrderId, reason: Reason) -> Order:
        """Take a delivered order back.

        Args:
            order_id: The order that goes back.
            reason: Why it goes back.
        """
        order = self.orders[order_id]
        if order.status != "delivered":
            raise ToolError("not_delivered", f"Order {order_id} is {order.status}; only delivered orders can go back.")
        return self.orders.change(order, status="returned")

    @tool(
        "delete",
        ask=("cancel {order_id}", "call off {order_id}", "stop {order_id} before it goes out"),
        done="The order for the {item} is cancelled.",
        errors=("not_open",),
    )
    def cancel_order(self, order_id: OrderId) -> Order:
        """Cancel an order that has not been shipped.

        Args:
            order_id: The order to cancel.
        """
        order = self._open_order(order_id)
        product = self.products[order.product_id]
        self.products.change(product, stock=product.stock + order.quantity)
        return self.orders.change(order, status="cancelled")

    @tool(
        "delete",
        ask=("take down {review_id}", "delete {review_id}", "remove {review_id}", "get rid of {review_id}"),
        done="{author}'s review of the {item} is gone.",
    )
    def delete_review(self, review_id: ReviewId) -> Review:
        """Delete a review.

        Args:
            review_id: The review to delete.
        """
        return self.reviews.remove(self.reviews[review_id])

    @tool(
        "transfer",
        ask=(
            "refund {order_id}",
            "pay back the money for {order_id}",
            "give back what was paid for {order_id}",
            "reimburse {order_id}",
        ),
        done="The money for the {item} was paid back.",
        errors=("not_refundable",),
    )
    def refund_order(self, order_id: OrderId) -> Refund:
        """Pay back a cancelled or returned order in full.

        Args:
            order_id: The order to refund.
        """
        order = self.orders[order_id]
        if order.status not in ("cancelled", "returned"):
            raise ToolError("not_refundable", f"Order {order_id} is {order.status}; cancel or return it first.")
        self.orders.change(order, status="refunded")
        return self.refunds.add(order_id=order_id, item=order.item, amount=order.total)

    @tool(
        "send",
        ask=(
            "send the invoice for {order_id} to {email}",
            "mail {email} the bill for {order_id}",
            "let {email} have the invoice for {order_id}",
            "send {email} an invoice for {order_id}",
        ),
        done="The invoice for the {item} went to {email}.",
        errors=("already_sent",),
    )
    def send_invoice(self, order_id: OrderId, email: Email) -> Invoice:
        """Send the invoice of an order by e-mail.

        Args:
            order_id: The order that the invoice is for.
            email: Where it goes.
        """
        order = self.orders[order_id]
        if self.invoices.where(order_id=order_id, email=email):
            raise ToolError("already_sent", f"The invoice for order {order_id} went to {email} before.")
        return self.invoices.add(order_id=order_id, item=order.item, email=email)

    def _open_order(self, order_id: str) -> Order:
        order = self.orders[order_id]
        if order.status != "open":
            raise ToolError("not_open", f"Order {order_id} is {order.status}; only open orders can be changed.")
        return order

    @staticmethod
    def _total(product: Product, quantity: int) -> float:
        return round(product.price * quantity * (0.9 if quantity >= 3 else 1.0), 2)

    @classmethod
    def populate(cls, draw: Draw, cast: Cast, today: str, size: int) -> Iterator[Record]:
        customers = [Customer(draw.id("cus"), p.name, p.email, p.city) for p in cast.people[:4]]
        products = [
            Product(draw.id("pro"), item, category, draw.amount(3, 90), draw.integer(0, 20))
            for category in draw.sample(tuple(CATEGORIES), min(2 + size, 6))
            for item in draw.sample(CATEGORIES[category], 3 if size == 1 else 5)
        ]
        yield from customers
        yield from products
        for customer in customers:
            for product in draw.sample(products, 3 * size):
                quantity = draw.integer(1, 4)
                status: OrderStatus = draw.choice(("open", "open", "shipped", "delivered", "delivered", "cancelled"))
                yield Order(
                    draw.id("ord"), customer.id, product.id, product.item, quantity, cls._total(product, quantity),
                    draw.date(today, -60, -1), status,
                )  # fmt: skip
            for _ in range(1 + draw.index(3 * size)):
                yield Voucher(draw.id("vou"), customer.id, draw.amount(2, 15), draw.date(today, 5, 90))
        for product in draw.sample(products, 3 * size):
            for author in draw.sample(cast.people[1:], 2 + draw.index(2)):
                yield Review(
                    draw.id("rev"), product.id, product.item, author.name, draw.integer(1, 5), draw.choice(OPINIONS)
                )
