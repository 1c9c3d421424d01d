//! What the admin thread is at, for the task tree.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use admin_types::tasks::Task;

/// The tasks of the admin thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasks(Rc<RefCell<Listed>>);

#[derive(Debug, Default)]
struct Listed {
    next: u64,
    tasks: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    kind: &'static str,
    state: &'static str,
    since: Instant,
    detail: String,
}

/// A task's place in the list; it leaves it when dropped.
#[derive(Debug)]
pub(crate) struct Listing {
    tasks: Tasks,
    id: u64,
}

impl Tasks {
    /// Enters a task.
    pub(crate) fn enter(&self, kind: &'static str, state: &'static str, detail: String) -> Listing {
        let mut listed = self.0.borrow_mut();
        let id = listed.next;
        listed.next += 1;
        let entry = Entry {
            kind,
            state,
            since: Instant::now(),
            detail,
        };
        listed.tasks.insert(id, entry);
        Listing {
            tasks: self.clone(),
            id,
        }
    }

    /// All of them.
    pub(crate) fn report(&self) -> Vec<Task> {
        let listed = self.0.borrow();
        let tasks = listed.tasks.iter().map(|(id, entry)| Task {
            id: *id,
            kind: entry.kind.to_owned(),
            state: entry.state.to_owned(),
            since_ms: u64::try_from(entry.since.elapsed().as_millis()).unwrap_or(u64::MAX),
            detail: entry.detail.clone(),
            ..Task::default()
        });
        tasks.collect()
    }
}

impl Listing {
    /// Says what the task is at.
    pub(crate) fn set(&self, state: &'static str, detail: String) {
        if let Some(entry) = self.tasks.0.borrow_mut().tasks.get_mut(&self.id) {
            entry.state = state;
            entry.since = Instant::now();
            entry.detail = detail;
        }
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.tasks.0.borrow_mut().tasks.remove(&self.id);
    }
}
