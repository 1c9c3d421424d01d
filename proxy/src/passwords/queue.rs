//! The checks that wait for a thread: in turn for each tenant, of a tenant in turn for each of its clients, and bounded by
//! the time that they take.
//!
//! Where there is no room, the tenant with the most work gives way, and of one tenant the client with the most: who tries
//! a thousand passwords from one address only delays itself, and who does so from a thousand addresses, or has chosen
//! hashes that take long, only the users of this tenant.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

/// Jobs by owner.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    tenants: Turns<Arc<str>, Tenant<T>>,
    work: u64,
    jobs: usize,
}

/// Whose job it is: the namespace of the route that was asked for, and the address of the client.
pub(super) type Owner = (Arc<str>, IpAddr);

#[derive(Debug)]
struct Tenant<T> {
    clients: Turns<IpAddr, Client<T>>,
    work: u64,
}

/// The jobs of a client, the oldest first, each with its work.
#[derive(Debug)]
struct Client<T> {
    jobs: VecDeque<(u64, T)>,
    work: u64,
}

/// How much a queue has room for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Work of all jobs. A job that is alone always has room.
    pub(super) work: u64,
    /// Number of all jobs.
    pub(super) jobs: usize,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self {
            tenants: Turns::default(),
            work: 0,
            jobs: 0,
        }
    }
}

impl<T> FairQueue<T> {
    /// Adds a job, and returns those that there is no room for: the newest of the owners with the most work, or itself.
    pub(super) fn push(&mut self, owner: &Owner, (work, job): (u64, T), room: Room) -> Vec<T> {
        let mut removed = Vec::new();
        while !self.has_room(work, room) {
            let Some(other) = self.make_room(owner, work) else {
                // Nobody gives way for a job that is refused all the same.
                while let Some((owner, other)) = removed.pop() {
                    self.add(&owner, other);
                }
                return vec![job];
            };
            removed.push(other);
        }
        self.add(owner, (work, job));
        removed.into_iter().map(|(_, (_, job))| job).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs == 0
    }

    fn add(&mut self, (name, address): &Owner, (work, job): (u64, T)) {
        let tenant = self.tenants.entry(name);
        tenant.work = tenant.work.saturating_add(work);
        let client = tenant.clients.entry(address);
        client.work = client.work.saturating_add(work);
        client.jobs.push_back((work, job));
        self.work = self.work.saturating_add(work);
        self.jobs = self.jobs.saturating_add(1);
    }

    /// Takes the oldest job of the client whose turn it is, of the tenant whose turn it is.
    pub(super) fn pop(&mut self) -> Option<T> {
        let name = self.tenants.turn()?;
        let address = self.tenants.entries.get_mut(&name)?.clients.turn()?;
        let job = self.remove(&(name, address), VecDeque::pop_front);
        job.map(|(_, job)| job)
    }

    fn has_room(&self, work: u64, room: Room) -> bool {
        self.jobs == 0 || self.work.saturating_add(work) <= room.work && self.jobs < room.jobs
    }

    /// Takes the newest job of whoever has more work than `owner` would have: another tenant, or else another client.
    fn make_room(&mut self, (name, address): &Owner, work: u64) -> Option<(Owner, (u64, T))> {
        let own = self.tenants.entries.get(name);
        let of_tenant = own.map_or(0, |it| it.work).saturating_add(work);
        let tenant = self.tenants.most_but(name, |it| it.work);
        let other = if let Some((tenant, _)) = tenant.filter(|it| it.1 > of_tenant) {
            let clients = &self.tenants.entries.get(tenant)?.clients;
            let most = { clients.entries.iter() }.max_by_key(|(_, it)| it.work);
            (Arc::clone(tenant), *most?.0)
        } else {
            let clients = &own?.clients;
            let client = clients.entries.get(address);
            let of_client = client.map_or(0, |it| it.work).saturating_add(work);
            let most = clients.most_but(address, |it| it.work);
            (Arc::clone(name), *most.filter(|it| it.1 > of_client)?.0)
        };
        let job = self.remove(&other, VecDeque::pop_back)?;
        Some((other, job))
    }

    /// Takes one of the jobs of an owner.
    fn remove(
        &mut self,
        (name, address): &Owner,
        which: impl FnOnce(&mut VecDeque<(u64, T)>) -> Option<(u64, T)>,
    ) -> Option<(u64, T)> {
        let tenant = self.tenants.entries.get_mut(name)?;
        let client = tenant.clients.entries.get_mut(address)?;
        let (work, job) = which(&mut client.jobs)?;
        self.work = self.work.saturating_sub(work);
        self.jobs = self.jobs.saturating_sub(1);
        tenant.work = tenant.work.saturating_sub(work);
        client.work = client.work.saturating_sub(work);
        if client.jobs.is_empty() {
            tenant.clients.remove(address);
        }
        if tenant.clients.entries.is_empty() {
            self.tenants.remove(name);
        }
        Some((work, job))
    }
}

impl<T> Default for Tenant<T> {
    fn default() -> Self {
        Self {
            clients: Turns::default(),
            work: 0,
        }
    }
}

impl<T> Default for Client<T> {
    fn default() -> Self {
        Self {
            jobs: VecDeque::new(),
            work: 0,
        }
    }
}

/// Entries, each of which has its turn.
#[derive(Debug)]
struct Turns<K, V> {
    /// The keys, in the order of their turns.
    order: VecDeque<K>,
    entries: HashMap<K, V>,
}

impl<K, V> Default for Turns<K, V> {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            entries: HashMap::new(),
        }
    }
}

impl<K: Clone + Eq + Hash, V: Default> Turns<K, V> {
    /// The entry of a key. A new one has the last turn.
    fn entry(&mut self, key: &K) -> &mut V {
        self.entries.entry(key.clone()).or_insert_with(|| {
            self.order.push_back(key.clone());
            V::default()
        })
    }

    /// The key whose turn it is. Its next one is after those of all others.
    fn turn(&mut self) -> Option<K> {
        let key = self.order.pop_front()?;
        self.order.push_back(key.clone());
        Some(key)
    }

    fn remove(&mut self, key: &K) {
        self.entries.remove(key);
        self.order.retain(|other| other != key);
    }

    /// The key of the entry with the most work, without that of one, and how much it has.
    fn most_but(&self, key: &K, work: impl Fn(&V) -> u64) -> Option<(&K, u64)> {
        let others = self.entries.iter().filter(|(other, _)| *other != key);
        let others = others.map(|(other, it)| (other, work(it)));
        others.max_by_key(|(_, work)| *work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room {
        work: 100,
        jobs: 20,
    };

    /// Adds a job of a client of the tenant `shop`, or of another one.
    fn push_to(
        (queue, tenant): (&mut FairQueue<String>, &str),
        client: u8,
        (work, name): (u64, &str),
    ) -> Vec<String> {
        let owner = (tenant.into(), [192, 0, 2, client].into());
        queue.push(&owner, (work, format!("{client}{name}")), ROOM)
    }

    fn push(queue: &mut FairQueue<String>, client: u8, work: u64, name: &str) -> Vec<String> {
        push_to((queue, "shop"), client, (work, name))
    }

    fn all(queue: &mut FairQueue<String>) -> Vec<String> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn clients_take_turns_and_each_keeps_its_order() {
        let mut queue = FairQueue::default();
        for name in ["a", "b", "c"] {
            assert!(push(&mut queue, 1, 10, name).is_empty());
        }
        assert!(push(&mut queue, 2, 10, "a").is_empty());
        assert_eq!(queue.pop().as_deref(), Some("1a"));
        assert!(push(&mut queue, 3, 10, "a").is_empty());
        assert_eq!(all(&mut queue), ["2a", "1b", "3a", "1c"]);
        assert_eq!((queue.work, queue.jobs), (0, 0));
        assert!(queue.tenants.entries.is_empty() && queue.tenants.order.is_empty());
    }

    /// A thousand guesses of one address do not keep others out.
    #[test]
    fn who_waits_for_most_gives_way_to_a_newcomer() {
        let mut queue = FairQueue::default();
        for number in 0..1000 {
            let refused = push(&mut queue, 1, 10, &format!("-{number}"));
            assert_eq!(refused.is_empty(), number < 10, "{number}");
        }
        assert_eq!(push(&mut queue, 2, 10, "x"), ["1-9"]);
        assert_eq!(push(&mut queue, 2, 10, "y"), ["1-8"]);
        assert_eq!(push(&mut queue, 3, 30, "z"), ["1-7", "1-6", "1-5"]);
        assert_eq!(all(&mut queue)[..3], ["1-0", "2x", "3z"]);
    }

    #[test]
    fn where_all_wait_for_as_much_a_newcomer_has_no_room() {
        let mut queue = FairQueue::default();
        for client in 0..10 {
            assert!(push(&mut queue, client, 10, "").is_empty());
        }
        assert_eq!(push(&mut queue, 11, 10, ""), ["11"]);
        assert_eq!(push(&mut queue, 1, 10, "b"), ["1b"]);
        queue.pop();
        assert!(push(&mut queue, 11, 10, "").is_empty());
    }

    /// A flood from many addresses at the routes of one tenant keeps nobody out of those of another.
    #[test]
    fn a_tenant_with_a_flood_gives_way_to_others_and_they_take_turns() {
        let mut queue = FairQueue::default();
        for client in 0..100 {
            let refused = push_to((&mut queue, "flooded"), client, (10, "f"));
            assert_eq!(refused.is_empty(), client < 10, "{client}");
        }
        for name in ["a", "b"] {
            let refused = push_to((&mut queue, "quiet"), 200, (10, name));
            assert_eq!(refused.len(), 1, "{refused:?}");
            assert!(refused[0].ends_with('f'), "{refused:?}");
        }
        let order = all(&mut queue);
        assert_eq!([&order[1], &order[3]], ["200a", "200b"], "{order:?}");
    }

    #[test]
    fn who_has_chosen_hashes_that_take_long_gives_way_to_who_has_not() {
        let mut queue = FairQueue::default();
        for client in [1, 2] {
            assert!(push_to((&mut queue, "costly"), client, (50, "c")).is_empty());
        }
        let refused = push_to((&mut queue, "cheap"), 3, (1, ""));
        assert_eq!(refused.len(), 1);
        assert!(refused[0].ends_with('c'), "{refused:?}");
        assert!(push_to((&mut queue, "cheap"), 4, (1, "")).is_empty());
    }

    #[test]
    fn nobody_gives_way_for_a_job_that_is_refused_all_the_same() {
        let mut queue = FairQueue::default();
        for name in ["a", "b", "c", "d", "e", "f"] {
            assert!(push_to((&mut queue, "many"), 1, (10, name)).is_empty());
        }
        assert!(push_to((&mut queue, "few"), 2, (40, "g")).is_empty());
        assert_eq!(push_to((&mut queue, "new"), 3, (55, "h")), ["3h"]);
        assert_eq!(queue.work, 100);
        let order = all(&mut queue);
        assert_eq!(order, ["1a", "2g", "1b", "1c", "1d", "1e", "1f"]);
    }

    #[test]
    fn a_job_larger_than_the_room_is_alone_until_a_smaller_one_comes() {
        let mut queue = FairQueue::default();
        assert!(push(&mut queue, 1, 500, "").is_empty());
        assert_eq!(push(&mut queue, 2, 600, ""), ["2"]);
        assert_eq!(push(&mut queue, 3, 1, ""), ["1"]);
        assert_eq!(all(&mut queue), ["3"]);
    }

    #[test]
    fn cheap_jobs_are_bounded_by_their_number() {
        let mut queue = FairQueue::default();
        let refused = (0..30).map(|it| push(&mut queue, 1, 1, &format!("-{it}")).len());
        assert_eq!(refused.sum::<usize>(), 10);
        assert_eq!(push(&mut queue, 2, 1, "x"), ["1-19"]);
        assert_eq!(all(&mut queue).len(), 20);
    }
}
