//! The cores and priorities of threads.

use rustix::process::{Pid, getpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::support::{Gateway, gateway, on_both_drivers, origin};

on_both_drivers! {
    fn other_threads_stay_off_the_core_of_a_pinned_shard(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .routes_to(&origin)
            .inspected()
            .environment("GATEWAY_PIN", "always")
            .start();
        gateway.client().gets("/").expects(200);
        let own = cores(None);
        let (first, others) = own.split_first().expect("we run somewhere");
        for (name, thread) in threads(&gateway) {
            // Kernel threads for operations of the ring run on the shard's core.
            if name == "shard-0" || name.starts_with("iou-") {
                assert_eq!(cores(Some(thread)), [*first], "{name}");
            } else if !others.is_empty() {
                assert_eq!(cores(Some(thread)), others, "{name}");
            }
        }
    }

    fn admin_threads_run_at_a_lower_priority(driver) {
        let origin = origin();
        // A process inherits the niceness of its parent.
        for nicer in ["0", "12"] {
            let gateway = gateway(driver).routes_to(&origin)
                .launched_by(&["nice", "-n", nicer]).inspected().start();
            let niceness = |name: &str| {
                let (_, thread) = threads(&gateway)
                    .find(|(found, _)| found == name)
                    .expect("it is there");
                getpriority_process(Some(thread)).expect("our own child")
            };
            assert_eq!(niceness("admin"), (niceness("shard-0") + 10).min(19), "{nicer}");
        }
    }
}

/// Its threads, by name, without those that end in the meantime.
fn threads(gateway: &Gateway) -> impl Iterator<Item = (String, Pid)> {
    let folder = std::fs::read_dir(format!("/proc/{}/task", gateway.pid()));
    folder.expect("our own child").filter_map(|thread| {
        let path = thread.expect("an entry").path();
        let name = std::fs::read_to_string(path.join("comm")).ok()?;
        let id = path.file_name()?.to_str()?.parse().ok()?;
        Some((name.trim_end().to_owned(), Pid::from_raw(id)?))
    })
}

/// The CPU affinity of a thread; `None` is this one.
fn cores(thread: Option<Pid>) -> Vec<usize> {
    let set = sched_getaffinity(thread).expect("our own child");
    (0..CpuSet::MAX_CPU)
        .filter(|&core| set.is_set(core))
        .collect()
}
