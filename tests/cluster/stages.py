"""Stages of a build that are small enough for tests."""


def cut_small(patch, first_stage):
    """Give a small graph stages of all kinds, with many units.

    Args:
        patch: A `MonkeyPatch`.
        first_stage: Hubs of the first stage.
    """
    plan = "dhilgt.labels.sharding.plan"
    limits = {"_LEVEL_UNIT": 1e4, "_SMALL_LEVEL": 1e4, "_FEWEST_SETTLED": 100, "_MOST_OWN": 0}
    for name, value in {"_FIRST_STAGE": first_stage, **limits}.items():
        patch.setattr(f"{plan}.{name}", value)
    patch.setattr(f"{plan}._Forecast.planes_are_cheapest", property(lambda _: False))
    patch.setattr(f"{plan}._Forecast.rest_fits", property(lambda one: one._stages_left < 1))
