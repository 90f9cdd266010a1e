"""All settings of a classifier in one place, YAML files of them, recipes."""

from dhilgt.settings.recipes import recipe
from dhilgt.settings.settings import Settings
from dhilgt.settings.yaml_files import read_settings, write_settings

__all__ = ["Settings", "read_settings", "recipe", "write_settings"]
