"""The valid calls of a state: offered tools with the values that the user said or that results showed.

Everything here follows from what a policy sees: the user's messages, the results, the signatures of the tools and the
words in them. Neither the world nor the gold calls are looked at.
"""
