"""NodeClassifier by scikit-learn's own checks, on rows of features without edges."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import dhilgt
from dhilgt.classifier.parameters import UNSET, NotFittedError
from tests.classifier.cases import community_graph, quick

pytest.importorskip("sklearn")
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError as TheirNotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted

EXEMPT = {
    "check_supervised_y_2d": "a column of classes is taken as one class per row, without a warning",
}


def for_checks():
    return dhilgt.NodeClassifier(
        size=1, hidden_channels=16, num_layers=1, heads=1, num_virtual=0, dropout=0.0,
        input_dropout=0.0, epochs=12, lr=0.1, warmup_epochs=0, cache=False, progress=False,
        recipe="paper",
    )  # fmt: skip


# Those whose estimators are fitted once or not at all; the others follow in the full run.
LIGHT = (
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_estimators_unfitted",
    "check_get_params_invariance",
    "check_set_params",
    "check_dict_unchanged",
    "check_dont_overwrite_attributes",
    "check_estimators_pickle",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_fit2d_1sample",
    "check_classifiers_one_label",
    "check_estimators_nan_inf",
)


def all_checks():
    for estimator, check in estimator_checks_generator(for_checks()):
        name = getattr(check, "func", check).__name__
        marks = [] if name in LIGHT else [pytest.mark.full]
        if name in EXEMPT:
            marks.append(pytest.mark.xfail(reason=EXEMPT[name], strict=True))
        yield pytest.param(estimator, check, marks=marks, id=name)


@pytest.mark.filterwarnings("ignore:Estimator NodeClassifier does not inherit")
@pytest.mark.parametrize(("estimator", "check"), list(all_checks()))
def test_scikit_learns_checks(estimator, check):
    with warnings.catch_warnings():
        # Random rows without a class in training, or a single one, are warned of elsewhere.
        warnings.simplefilter("ignore", dhilgt.GraphWarning)
        check(estimator)


def test_clone_takes_the_parameters_and_leaves_what_was_learned():
    fitted = quick(size=5).fit(community_graph())
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "model_")
    assert is_classifier(fitted)
    check_is_fitted(fitted)


def test_the_constructor_takes_the_settings_in_order_and_by_name():
    clf = dhilgt.NodeClassifier(lr=0.5).set_params(size=4)
    values = dict.fromkeys(dhilgt.Settings().to_dict(), UNSET) | {"lr": 0.5, "size": 4}
    values |= {"recipe": "auto", "budget": None, "cache": True, "progress": "auto"}
    assert list(clf.get_params().items()) == list(values.items())
    with pytest.raises(TypeError, match="unexpected keyword argument 'sizes'"):
        dhilgt.NodeClassifier(sizes=3)
    with pytest.raises(TypeError):
        dhilgt.NodeClassifier(32)


@pytest.mark.full
def test_type_checkers_know_the_parameters(tmp_path):
    api = pytest.importorskip("mypy.api")
    file = tmp_path / "calls.py"
    file.write_text(
        "import dhilgt\n"
        "dhilgt.NodeClassifier(size=3, cache=False, progress='auto')\n"
        "dhilgt.NodeClassifier(sizes=3)\n"
        "dhilgt.DHILGT(1, 2, 3, heads='two')\n"
    )
    output, _, _ = api.run(["--cache-dir", str(tmp_path / "cache"), str(file)])
    errors = [line for line in output.splitlines() if "calls.py" in line and "error" in line]
    assert len(errors) == 2
    assert 'did you mean "size"' in errors[0]
    assert '"heads"' in errors[1]


def test_the_error_before_fit_is_theirs_and_ours():
    with pytest.raises(TheirNotFittedError):
        check_is_fitted(quick())
    with pytest.raises(TheirNotFittedError) as caught:
        quick().predict()
    assert isinstance(caught.value, NotFittedError)


def test_cross_validation_runs_on_rows():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(90, 3))
    scores = cross_val_score(for_checks(), rows, rows[:, 0] > 0, cv=3)
    assert scores.mean() > 0.8


def test_it_works_where_scikit_learn_is_not():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import numpy as np, dhilgt\n"
        "clf = dhilgt.NodeClassifier(size=1, hidden_channels=4, heads=1, num_layers=1, epochs=1,"
        " cache=False, progress=False, recipe='paper')\n"
        "try:\n    clf.predict()\n"
        "except dhilgt.DhilgtError as error:\n    print(type(error).__name__)\n"
        "print(clf.fit(np.eye(6), [0, 1] * 3).predict(np.eye(6)).shape, clf)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "NotFittedError"
    assert done.stdout.splitlines()[1].startswith("(6,) NodeClassifier(size=1")
