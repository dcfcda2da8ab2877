"""The words that variants of BFCL's tasks take: code names, given names, tags, handles, streets."""

from __future__ import annotations

# Names of projects, teams and offices: what people put before the name of a file.
CODENAMES = (
    "harbor", "maple", "atlas", "delta", "summit", "cedar", "falcon", "granite", "juniper", "lagoon", "meadow",
    "nimbus",
    "orchid", "pioneer", "quartz", "ridge", "saffron", "timber", "vertex", "willow", "zephyr", "beacon", "canyon",
    "drift", "ember", "fjord", "glacier", "horizon", "indigo", "jasper", "kestrel", "lotus", "mosaic", "nova", "opal",
    "prairie", "raven", "sierra", "tundra", "velvet", "walnut", "coral", "birch", "comet", "dune", "elm", "garnet",
    "heron", "ivory", "lark", "marble", "north", "oasis", "pebble", "reef", "slate", "topaz", "vista", "wren", "basil",
)  # fmt: skip

# Folders by what they are for: one may stand for another of its row.
FOLDERS = (
    ("archive", "backup", "vault", "storage", "attic"),
    ("archives", "backups", "vaults", "keepsakes", "snapshots"),
    ("temp", "scratch", "staging", "sandbox", "holding"),
    ("tmp", "scratch", "staging", "sandbox"),
    ("documents", "papers", "paperwork", "records", "office"),
    ("document", "paperwork", "papers", "office"),
    ("reports", "briefings", "statements", "reviews"),
    ("documentation", "handbook", "manuals", "guides"),
    ("research", "studies", "fieldwork", "science"),
    ("project", "venture", "campaign", "initiative"),
)

WOMEN = (
    "Ana", "Clara", "Diana", "Elena", "Fiona", "Greta", "Hannah", "Irene", "Julia", "Karen", "Laura", "Maria", "Nora",
    "Olivia", "Paula", "Rosa", "Sofia", "Tina", "Vera", "Wendy", "Alice", "Jane", "Sarah", "Emma", "Catherine", "Kelly",
    "Eleanor", "Evelyn", "Lara", "Molly", "Josephine", "Linda", "Megan", "Naomi", "Ruth", "Stella",
)  # fmt: skip
MEN = (
    "Adam", "Brian", "Carl", "Derek", "Eric", "Felix", "Gavin", "Henry", "Ivan", "Kevin", "Leo", "Martin", "Nathan",
    "Oscar", "Peter", "Robert", "Simon", "Thomas", "Victor", "Walter", "Bob", "John", "Michael", "David", "Daniel",
    "Carlos", "Maxwell", "Sam", "Alex", "Jonas", "Luis", "Paul", "Hugo", "Frank", "Gilbert", "Ramkumar", "Mike",
)  # fmt: skip

# Tags and handles of one row may stand for each other.
TAGS = (
    ("CarMaintenance", "CarCare", "TireHealth", "AutoCare", "GarageDay", "WellServiced", "CarCheck", "TireCheck",
     "SafeDriving", "VehicleCare", "CarLife"),
    ("RoadTrip", "Roadtrip", "Adventure", "Exploring", "OnTheRoad", "OpenRoad", "WeekendDrive", "LongDrive",
     "Wanderlust",
     "OffWeGo", "RoadLife", "Discovery"),
    ("TravelGoals", "TravelBlog", "Getaway", "TravelDiary", "TripPlans", "BucketList", "VacationMode", "TravelTime",
     "TravelNotes"),
    ("GenealogyAdventure", "FamilyHistory", "FamilyRoots", "AncestorHunt", "HeritageTrip", "RootsJourney",
     "FamilyTree"),
    ("DataManagement", "Efficiency", "Productivity", "DataCare", "WellOrganized", "CleanDesk", "OfficeLife",
     "TidyFiles"),
    ("ProjectUpdate", "ProjectNews", "StatusUpdate", "WorkInProgress", "TeamNews", "ProgressReport"),
    ("currenttechtrend", "techwatch", "technews", "futuretech", "techinsights", "digitaltrends"),
)  # fmt: skip
HANDLES = (
    ("VehicleGuru", "carenthusiast", "AutoUpdates", "GarageTalk", "MotorMinds", "TireExperts", "WrenchClub",
     "CarClinic",
     "DriveDaily", "EngineRoom"),
    ("TravelBuddy", "Spontaneity", "TripMates", "GlobeFriends", "RoamTogether", "JourneyClub", "WeekendFlyers"),
    ("manager", "team_lead", "project_owner", "product_lead", "office_head", "release_lead", "deputy", "coordinator"),
)  # fmt: skip

ACCOUNTS = (
    "tech_guru", "data_nerd", "night_coder", "web_wizard", "code_poet", "pixel_pilot", "chip_fan", "gadget_fox",
)  # fmt: skip

STREETS = (
    "Pine St", "Cedar Ave", "Lake St", "Mission St", "Harbor Rd", "Elm St", "Chestnut Ave", "Valley Rd", "Church St",
    "Garden Ave", "Market St", "Spring St", "River Rd", "Oakwood Avenue", "Hill St", "Willow Rd",
)  # fmt: skip

# What BFCL's grep looks for, and what files are about.
PHRASES = (
    ("budget analysis", "risk analysis", "cost analysis", "market analysis", "sales analysis", "staffing analysis"),
    ("quantum computing", "machine learning", "graph theory", "solar energy", "ocean currents", "game theory",
     "urban planning", "plant genetics", "robotics", "behavioral economics", "cloud computing"),
    ("To be discussed", "To be confirmed", "To be reviewed", "To be continued", "To be approved", "To be decided"),
    ("Error", "Warning", "Failure", "Timeout", "Fault", "Exception"),
    ("error", "warning", "failure", "timeout", "fault", "exception"),
    ("Anomaly", "Deviation", "Irregularity", "Fluctuation", "Disturbance", "Outlier"),
    ("Progress", "Milestone", "Deadline", "Outlook", "Budget", "Schedule", "Feedback"),
    ("server error", "network error", "database error", "memory error", "login error", "license error"),
    ("update the system", "update the drivers", "update the server", "update the packages", "update the firmware",
     "update the licenses",
     "update the database", "update the website", "update the backups", "update the plugins"),
)  # fmt: skip
