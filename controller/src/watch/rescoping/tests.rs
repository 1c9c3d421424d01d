use std::sync::Arc;

use tokio::task::yield_now;

use super::*;

/// The followers of all kinds, which do what a test says.
struct Scene {
    kinds: Kinds,
    reports: Reports,
    selected: watch::Sender<Option<Scope>>,
    policies: Scopes,
    others: Scopes,
}

fn scope(namespaces: &[&str]) -> Scope {
    Scope::Selected(Arc::new(namespaces.iter().map(|it| (*it).into()).collect()))
}

impl Scene {
    /// All kinds have listed the selected namespaces.
    async fn of(selected: &[&str]) -> Self {
        let kinds = Kinds::new(&[]);
        let reports = Reports::default();
        let (sender, receiver) = watch::channel(Some(scope(selected)));
        let rescoping = Rescoping::new(receiver, &reports, &kinds);
        let policy = kinds.policies().next().expect("a policy");
        let other = kinds.others().next().expect("another kind");
        let scene = Self {
            policies: rescoping.scopes(policy),
            others: rescoping.scopes(other),
            selected: sender,
            kinds,
            reports,
        };
        for kind in scene.kinds.iter() {
            scene.reports.holds(kind, &scope(selected));
            scene.reports.listed(kind, &scope(selected));
        }
        tokio::spawn(rescoping.run());
        settle().await;
        scene
    }

    async fn select(&self, namespaces: &[&str]) {
        self.selected.send_replace(Some(scope(namespaces)));
        settle().await;
    }

    async fn policies_hold(&self, namespaces: &[&str]) {
        for kind in self.kinds.policies() {
            self.reports.holds(kind, &scope(namespaces));
        }
        settle().await;
    }

    async fn policies_list(&self, namespaces: &[&str]) {
        for kind in self.kinds.policies() {
            self.reports.listed(kind, &scope(namespaces));
        }
        settle().await;
    }

    async fn others_hold(&self, namespaces: &[&str]) {
        for kind in self.kinds.others() {
            self.reports.holds(kind, &scope(namespaces));
        }
        settle().await;
    }

    /// Which namespaces the policies are to be read of, and which all others.
    #[track_caller]
    fn expect(&self, policies: &[&str], others: &[&str]) {
        let published = [&self.policies, &self.others].map(|it| it.borrow().clone());
        assert_eq!(published, [policies, others].map(|it| Some(scope(it))));
    }
}

/// Other tasks run until all of them wait.
async fn settle() {
    for _ in 0..10 {
        yield_now().await;
    }
}

#[tokio::test]
async fn policies_of_a_newly_selected_namespace_are_listed_first() {
    let scene = Scene::of(&["a"]).await;
    scene.select(&["a", "b"]).await;
    scene.expect(&["a", "b"], &["a"]);
    scene.policies_hold(&["a", "b"]).await;
    // The end of a list that began before.
    scene.policies_list(&["a"]).await;
    scene.expect(&["a", "b"], &["a"]);
    scene.policies_list(&["a", "b"]).await;
    scene.expect(&["a", "b"], &["a", "b"]);
}

#[tokio::test]
async fn policies_of_a_deselected_namespace_are_the_last_to_go() {
    let scene = Scene::of(&["a", "b"]).await;
    scene.select(&["a"]).await;
    scene.expect(&["a", "b"], &["a"]);
    scene.others_hold(&["a"]).await;
    scene.expect(&["a"], &["a"]);
}

#[tokio::test]
async fn a_namespace_replaces_another() {
    let scene = Scene::of(&["a"]).await;
    scene.select(&["b"]).await;
    // What is deselected goes at once, also if the policies of `b` cannot be listed.
    scene.expect(&["a", "b"], &[]);
    scene.policies_hold(&["a", "b"]).await;
    scene.policies_list(&["a", "b"]).await;
    scene.expect(&["a", "b"], &["b"]);
    scene.others_hold(&["b"]).await;
    scene.expect(&["b"], &["b"]);
}

#[tokio::test]
async fn a_namespace_that_is_selected_again_is_listed_again() {
    let scene = Scene::of(&["a", "b"]).await;
    scene.select(&["a"]).await;
    scene.others_hold(&["a"]).await;
    scene.expect(&["a"], &["a"]);
    // The policies have not left yet, so that their last list seems to be that of both.
    scene.select(&["a", "b"]).await;
    scene.expect(&["a"], &["a"]);
    scene.policies_hold(&["a"]).await;
    scene.expect(&["a", "b"], &["a"]);
    scene.policies_hold(&["a", "b"]).await;
    scene.policies_list(&["a", "b"]).await;
    scene.expect(&["a", "b"], &["a", "b"]);
}

#[tokio::test]
async fn a_change_in_the_middle_of_another_counts_what_is_held() {
    let scene = Scene::of(&["a", "b"]).await;
    scene.select(&["a"]).await;
    // Nothing of `b` has left.
    scene.select(&["a", "c"]).await;
    scene.expect(&["a", "b", "c"], &["a"]);
    scene.policies_hold(&["a", "b", "c"]).await;
    scene.policies_list(&["a", "b", "c"]).await;
    scene.expect(&["a", "b", "c"], &["a", "c"]);
    scene.others_hold(&["a", "c"]).await;
    scene.expect(&["a", "c"], &["a", "c"]);
}

#[tokio::test]
async fn kinds_that_are_not_served_are_not_waited_for() {
    let scene = Scene::of(&["a"]).await;
    for kind in scene.kinds.iter() {
        scene.reports.absent(kind);
    }
    scene.select(&["b"]).await;
    scene.expect(&["b"], &["b"]);
}

/// A list says nothing of namespaces that were selected after it began.
#[tokio::test]
async fn each_namespace_is_read_once_its_policies_are_listed() {
    let scene = Scene::of(&["a"]).await;
    scene.select(&["a", "b"]).await;
    scene.policies_hold(&["a", "b"]).await;
    scene.select(&["a", "b", "c"]).await;
    scene.policies_hold(&["a", "b", "c"]).await;
    scene.policies_list(&["a", "b"]).await;
    scene.expect(&["a", "b", "c"], &["a", "b"]);
    scene.select(&["a", "b", "c", "d"]).await;
    scene.policies_hold(&["a", "b", "c", "d"]).await;
    scene.policies_list(&["a", "b", "c"]).await;
    scene.expect(&["a", "b", "c", "d"], &["a", "b", "c"]);
}
