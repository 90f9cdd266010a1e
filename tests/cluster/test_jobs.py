"""Units of work on a cluster: done once each, whatever dies, with errors that name the node."""

import hashlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import types

import pytest

from dhilgt.cluster import jobs
from dhilgt.cluster.folder import JobFolder
from dhilgt.cluster.jobs import Job
from dhilgt.cluster.nodes import cores_each
from dhilgt.cluster.units import SEPARATE, Outcome, Unit
from dhilgt.errors import ArtifactError, ConfigError, DhilgtError
from dhilgt.store.artifact import Artifact
from tests.cluster import small_units
from tests.cluster.conftest import NODE, an_extra_node, kept_busy

ABOUT = {"kind": "test"}


def writers(count, **arguments):
    return [
        Unit(f"part {number}", small_units.write, {"number": number, **arguments})
        for number in range(count)
    ]


def run(ray, path, units, about=ABOUT, **options):
    """Return the outcomes and the bytes of their files."""
    with JobFolder(path, about=about) as folder:
        with Job(ray, folder, progress=False, **options) as job:
            outcomes = job.run(units, title="testing")
        contents = [(folder.folder / one.files[0].name).read_bytes() for one in outcomes]
    return outcomes, contents


def test_outcomes_come_in_the_order_of_the_units(connection, tmp_path):
    outcomes, contents = run(connection, tmp_path / "out", writers(7))
    assert [one.facts for one in outcomes] == [{"number": n, "pid": [1, 2]} for n in range(7)]
    assert contents == [bytes([n]) * 100 for n in range(7)]
    assert [one.files[0].sha256 for one in outcomes] == [
        hashlib.sha256(content).hexdigest() for content in contents
    ]


def test_few_units_share_the_cores_of_the_smallest_node():
    def ray(*cores):
        nodes = [{"Alive": True, "Resources": {"CPU": float(count)}} for count in cores]
        return types.SimpleNamespace(nodes=lambda: nodes)

    assert cores_each(ray(4, 4, 4, 4), 6, None) == 2
    assert cores_each(ray(4, 4, 4, 4), 40, None) == 1
    assert cores_each(ray(4, 4, 4, 4), 1, None) == 4
    assert cores_each(ray(16, 1), 2, None) == 1  # the large one may be gone before they are begun


def test_finished_units_are_not_done_again(connection, tmp_path):
    first, _ = run(connection, tmp_path / "out", writers(3))
    kept = tmp_path / "out.partial" / "part-1"
    stamp = kept.stat().st_mtime_ns
    again, contents = run(connection, tmp_path / "out", writers(4))
    assert again[:3] == first
    assert len(contents) == 4
    assert kept.stat().st_mtime_ns == stamp


@pytest.mark.parametrize("damage", ["removed", "cut", "changed", "journal"])
def test_damaged_files_are_made_again(connection, tmp_path, damage):
    _, before = run(connection, tmp_path / "out", writers(2))
    file = tmp_path / "out.partial" / "part-1"
    if damage == "removed":
        file.unlink()
    elif damage == "cut":
        os.truncate(file, 50)
    elif damage == "changed":
        file.write_bytes(b"x" * 100)
    else:
        journal = tmp_path / "out.partial" / "journal.jsonl"
        os.truncate(journal, journal.stat().st_size - 9)
    assert run(connection, tmp_path / "out", writers(2))[1] == before


def test_an_unfinished_job_of_something_else_is_refused_or_discarded(tmp_path):
    with JobFolder(tmp_path / "out", about={"order": "degree"}) as folder:
        folder.record("part 1", small_units.write(folder.folder, number=1))
    with pytest.raises(ArtifactError, match=r"'order': 'degree'.*overwrite=True"):
        JobFolder(tmp_path / "out", about={"order": "core"})
    with JobFolder(tmp_path / "out", about={"order": "core"}, overwrite=True) as folder:
        assert folder.done == {}
        assert not (folder.folder / "part-1").exists()


def test_the_message_about_an_unfinished_job_asks_for_the_same_command(tmp_path):
    with JobFolder(tmp_path / "out", about=ABOUT) as folder:
        folder.record("part 1", Outcome())
    with pytest.raises(ArtifactError, match="run the command that builds it again to finish it"):
        Artifact.open(tmp_path / "out")


def test_a_folder_of_a_user_is_left_alone(tmp_path):
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "thesis.tex").write_text("x")
    with pytest.raises(ArtifactError, match=r"holds 'thesis.tex'; move it away"):
        JobFolder(tmp_path / "out", about=ABOUT, overwrite=True)


def test_a_second_driver_is_refused(tmp_path):
    first = JobFolder(tmp_path / "out", about=ABOUT)
    with pytest.raises(ArtifactError, match=f"is being built by process {os.getpid()} on"):
        JobFolder(tmp_path / "out", about=ABOUT)
    first.close()
    assert not list(tmp_path.iterdir())  # nothing was finished
    JobFolder(tmp_path / "out", about=ABOUT).close()


def test_an_error_names_the_unit_and_the_node_and_keeps_the_rest(connection, tmp_path):
    run(connection, tmp_path / "out", writers(2))
    units = [*writers(3), Unit("part 9", small_units.fail, {"number": 9})]
    with pytest.raises(DhilgtError) as caught:
        run(connection, tmp_path / "out", units)
    message = str(caught.value)
    assert f"part 9 failed on node {socket.gethostname()} (" in message
    assert "unexpected ValueError: no 9 (small_units.py, line" in message
    assert "; repeat it to go on from the" in message
    assert any("Traceback" in note for note in caught.value.__notes__)
    with JobFolder(tmp_path / "out", about=ABOUT) as folder:
        assert {"part 0", "part 1"} <= set(folder.done)


def test_a_full_disk_names_the_node(connection, tmp_path):
    with pytest.raises(ArtifactError, match=r"the disk of node .* is full, at part 0: cannot"):
        run(
            connection,
            tmp_path / "out",
            [Unit("part 0", small_units.on_full_disk, {"number": 0})],
        )


def test_a_worker_that_dies_is_replaced(connection, tmp_path):
    units = [Unit("part 3", small_units.die, {"number": 3, "times": 1}), *writers(2)]
    _, contents = run(connection, tmp_path / "out", units)
    assert contents[0] == b"\3" * 100
    assert (tmp_path / "deaths").read_text().split() == ["3", "3"]


def test_units_begun_ahead_are_taken_over_or_given_up(connection, tmp_path, monkeypatch):
    sent, submit = [], Job._submit

    def watched(job, todo):
        waiting = list(todo)
        submit(job, todo)
        sent.extend(one.call.unit.name for one in waiting[: len(waiting) - len(todo)])

    monkeypatch.setattr(Job, "_submit", watched)
    first = [Unit("part 0", small_units.slow, {"number": 0, "seconds": 0.5})]
    ahead = [
        Unit(f"part {n}", small_units.slow, {"number": n, "seconds": 0.5 if n < 3 else 600.0})
        for n in range(1, 4)
    ]
    broken = Unit("part 9", small_units.fail, {"number": 9})
    with JobFolder(tmp_path / "out", about=ABOUT) as folder, Job(connection, folder) as job:
        job.run(first, title="first", ahead=[broken, *ahead])  # its error is nobody's concern
        assert sent[:4] == ["part 0", "part 9", "part 1", "part 2"]
        assert "part 9" not in folder.done
        job.run(ahead[:2], title="second", ahead=ahead[2:])
        (outcome,) = job.run(writers(5)[4:], title="third")  # the last one is given up
        assert outcome.facts["number"] == 4
        assert set(folder.done) == {"part 0", "part 1", "part 2", "part 4"}
    assert sorted(sent) == ["part 0", "part 1", "part 2", "part 3", "part 4", "part 9"]


def test_a_module_that_a_node_does_not_have(connection, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "only_here", types.ModuleType("only_here"))
    monkeypatch.setattr(small_units.write, "__module__", "only_here")
    monkeypatch.setattr(sys.modules["only_here"], "write", small_units.write, raising=False)
    with pytest.raises(DhilgtError, match=r"the node [\d.]+ has no module only_here; install"):
        run(connection, tmp_path / "out", writers(1))


def test_more_than_a_node_has_is_refused(connection, tmp_path):
    with pytest.raises(
        ConfigError, match=r"no node of the cluster has 64 cores and 9 GB .*: 1 core, "
    ):
        run(connection, tmp_path / "out", writers(1), num_cpus=64, memory=9 * 10**9)
    assert not list(tmp_path.iterdir())


def test_a_node_without_the_folder_gets_its_inputs_and_returns_its_files(
    cluster, connection, tmp_path
):
    source = Unit("source", small_units.write, {"number": 1, "size": 9_000_000})
    copies = [
        Unit(f"copy {n}", small_units.copy, {"source": "part-1", "number": n}, ("part-1",))
        for n in range(4)
    ]
    places = [Unit(f"at {n}", small_units.where, {"number": n}, None) for n in range(4)]
    content = b"\1" * 9_000_000
    with JobFolder(tmp_path / "out", about=ABOUT) as folder:
        job = Job(connection, folder, progress=False)
        job.here(source)
        job.run(copies[:1], title="copying")
        local = tmp_path / "local"
        local.mkdir()
        apart = {SEPARATE: "1", "TMPDIR": str(local)}
        with kept_busy(connection), an_extra_node(cluster, env_vars=apart) as node_id:
            outcomes = [job.here(source), *job.run(copies, title="copying")]
            kept = {path.name for path in local.glob("dhilgt-*/*")}
            assert kept == {".lock", "part-1"}
            job.close()
            assert not list(local.glob("dhilgt-*"))
        contents = [(folder.folder / one.files[0].name).read_bytes() for one in outcomes]
        assert job._apart == {node_id}
        got = job.run(places, title="looking")
        assert {one.facts["folder"] for one in got} == {str(folder.folder)}
        assert os.getpid() not in {one.facts["pid"] for one in got}
    assert contents == [content, *(content + bytes([n]) for n in range(4))]


def test_units_of_the_folder_are_done_here_where_no_node_sees_it(connection, tmp_path):
    with JobFolder(tmp_path / "out", about=ABOUT) as folder:
        folder.token = "something else"
        job = Job(connection, folder, progress=False)
        job.run(writers(2), title="writing")
        (got,) = job.run([Unit("at", small_units.where, {"number": 1}, None)], title="looking")
        job.close()
    assert got.facts["pid"] == os.getpid()


DRIVER = """
import sys
from dhilgt.cluster.folder import JobFolder
from dhilgt.cluster.jobs import Job
from dhilgt.cluster.nodes import cores_each
from dhilgt.cluster.session import connected
from dhilgt.cluster.units import Unit
from dhilgt.store.artifact import Artifact
from tests.cluster import small_units

units = [Unit(f"part {n}", small_units.slow, {"number": n, "seconds": 0.1 if n < 2 else 60.0})
         for n in range(4)]
with connected(sys.argv[1]) as ray, JobFolder(sys.argv[2], about={"kind": "test"}) as folder:
    Job(ray, folder, progress=False).run(units, title="testing")
"""


def _wait_until(condition, seconds=60):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.05)


@pytest.mark.full
@pytest.mark.parametrize("how", ["SIGKILL", "SIGINT"])
def test_a_driver_that_is_stopped_is_continued(cluster, connection, tmp_path, how):
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, cluster.address, str(tmp_path / "out")],
        stderr=subprocess.PIPE,
        text=True,
    )
    _wait_until(lambda: (tmp_path / "begun-2").exists() and (tmp_path / "begun-3").exists())
    with pytest.raises(ArtifactError, match="is being built by process"):
        JobFolder(tmp_path / "out", about=ABOUT)
    driver.send_signal(getattr(signal, how))
    _, errors = driver.communicate(timeout=60)
    if how == "SIGINT":
        assert "interrupted; repeat it to go on from the 2 finished units in" in errors
    stamp = (tmp_path / "out.partial" / "part-1").stat().st_mtime_ns
    _, contents = run(connection, tmp_path / "out", writers(4))
    assert contents == [bytes([n]) * 100 for n in range(4)]
    assert (tmp_path / "out.partial" / "part-1").stat().st_mtime_ns == stamp


@pytest.mark.full
def test_a_unit_that_always_kills_its_worker_stops_the_job(connection, tmp_path):
    units = [Unit("part 5", small_units.die, {"number": 5, "times": 99, "by_signal": True})]
    host = socket.gethostname()
    with pytest.raises(DhilgtError, match=rf"part 5 on node {host} .*the worker died each time"):
        run(connection, tmp_path / "out", units)
    assert len((tmp_path / "deaths").read_text().split()) == jobs.MAX_ATTEMPTS


@pytest.mark.full
def test_files_larger_than_the_object_store_pass_through_it(cluster, connection, tmp_path):
    size = 200_000_000
    source = Unit("source", small_units.write, {"number": 1, "size": size})
    copy = Unit("copy", small_units.copy, {"source": "part-1", "number": 2}, ("part-1",))
    apart = {SEPARATE: "1", "TMPDIR": str(tmp_path)}
    with JobFolder(tmp_path / "out", about=ABOUT) as folder:
        with Job(connection, folder, progress=False) as job:
            job.here(source)
            with kept_busy(connection), an_extra_node(cluster, env_vars=apart):
                (outcome,) = job.run([copy], title="copying")
        assert outcome.files[0].num_bytes == size + 1
        assert folder.is_whole(outcome.files[0])


@pytest.mark.full
def test_a_full_object_store_names_the_node(cluster, connection, tmp_path):
    unit = Unit("part 1", small_units.write, {"number": 1, "size": 200_000_000})
    # More than a thousandth of the disk in use counts as full.
    full = {SEPARATE: "1", "TMPDIR": str(tmp_path), "RAY_local_fs_capacity_threshold": "0.001"}
    with (
        kept_busy(connection),
        an_extra_node(cluster, env_vars=full) as node_id,
        pytest.raises(DhilgtError, match=rf"part 1 on node .*{node_id[:12]}.*are full"),
    ):
        run(connection, tmp_path / "out", [unit])


@pytest.mark.full
def test_units_of_a_node_that_is_removed_are_done_elsewhere(cluster, connection, tmp_path):
    node = cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    units = [Unit(f"part {n}", small_units.slow, {"number": n, "seconds": 1.0}) for n in range(9)]

    def remove():
        _wait_until(lambda: len(list(tmp_path.glob("begun-*"))) >= 3)
        cluster.remove_node(node, allow_graceful=False)

    thread = threading.Thread(target=remove)
    thread.start()
    _, contents = run(connection, tmp_path / "out", units)
    thread.join()
    assert contents == [bytes([n]) * 100 for n in range(9)]
