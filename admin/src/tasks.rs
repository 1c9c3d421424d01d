//! Running tasks of the admin thread, for `/debug/tasks`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use admin_types::tasks::Task;

/// The tasks of the admin thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasks(Rc<RefCell<TaskList>>);

#[derive(Debug, Default)]
struct TaskList {
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

/// A registered task, which is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct TaskHandle {
    tasks: Tasks,
    id: u64,
}

impl Tasks {
    pub(crate) fn register(
        &self,
        kind: &'static str,
        state: &'static str,
        detail: String,
    ) -> TaskHandle {
        let mut list = self.0.borrow_mut();
        let id = list.next;
        list.next += 1;
        let entry = Entry {
            kind,
            state,
            since: Instant::now(),
            detail,
        };
        list.tasks.insert(id, entry);
        TaskHandle {
            tasks: self.clone(),
            id,
        }
    }

    pub(crate) fn report(&self) -> Vec<Task> {
        let list = self.0.borrow();
        let tasks = list.tasks.iter().map(|(id, entry)| Task {
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

impl TaskHandle {
    /// Updates the state and detail of the task.
    pub(crate) fn set(&self, state: &'static str, detail: String) {
        if let Some(entry) = self.tasks.0.borrow_mut().tasks.get_mut(&self.id) {
            entry.state = state;
            entry.since = Instant::now();
            entry.detail = detail;
        }
    }
}

impl Drop for TaskHandle {
    fn drop(&mut self) {
        self.tasks.0.borrow_mut().tasks.remove(&self.id);
    }
}
