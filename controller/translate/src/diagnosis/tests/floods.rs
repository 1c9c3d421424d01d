//! What one tenant can do to others: take their time and memory, and learn their names.

use super::doubts::grant;
use super::*;
use crate::status::Reason;

/// As many ranges and pages as a policy may have, and as many networks.
#[test]
fn a_flood_of_entries_is_examined_soon() {
    let ranges = vec!["'400-599'"; 16].join(", ");
    let page = format!("{{statuses: [{ranges}], bodies: [{{contentType: text/plain, body: a}}]}}");
    let pages = vec![page; 16].join(", ");
    let network = |first: usize, it: usize| format!("{first}.{}.{}.0/24", it / 256, it % 256);
    let networks = |first: usize| -> String {
        let networks = (0..1_024).map(|it| network(first, it));
        networks.collect::<Vec<_>>().join(", ")
    };
    let (allowed, denied) = (networks(10), networks(11));
    let spec = format!("errorPages: [{pages}], networks: {{allow: [{allowed}], deny: [{denied}]}}");
    let mut policies = String::new();
    for number in 0..10 {
        let policy = policy(ROUTE, &spec);
        policies += &policy.replace("name: access", &format!("name: access-{number}"));
    }
    let source = Source::new("a.yaml", format!("{GATEWAY}{}{policies}", working()));
    let store: Store = { admit(&[source]).objects.into_iter() }
        .map(|(it, _)| it)
        .collect();
    let started = std::time::Instant::now();
    let found = diagnose(&store, &Options::machine(), Others::Named);
    let took = started.elapsed();
    let pages = found
        .iter()
        .filter(|it| it.field.starts_with("spec.errorPages"));
    assert_eq!(pages.count(), 10 * 15);
    assert!(took < std::time::Duration::from_secs(5), "{took:?}");
}

/// Each of these has as many parents, hosts and matches as a route may have.
#[test]
fn a_flood_of_twins_takes_no_memory_of_others() {
    let list = |count: usize, item: &dyn Fn(usize) -> String| {
        let items: Vec<String> = (0..count).map(item).collect();
        items.join(", ")
    };
    let parents = list(32, &|it| {
        format!("{{name: edge, namespace: infra, sectionName: l{it}}}")
    });
    let hosts = list(16, &|it| format!("h{it}.example"));
    let matches = list(64, &|it| format!("{{path: {{value: /p{it}}}}}"));
    let rule = |first: &str| {
        format!("{{matches: [{first}{matches}], backendRefs: [{{name: shop, port: 80}}]}}")
    };
    let flood = |number: usize| {
        let name = format!("flood-{number:02}");
        let route = route(&name, &format!("[{}]", rule("")));
        let route = route.replace("{name: edge, namespace: infra}", &parents);
        route.replace("[shop.example]", &format!("[{hosts}]"))
    };
    let flood: String = (0..20).map(flood).collect();
    let twin = |name: &str| {
        let route = serving(name, "[shop.example]", "{path: {value: /}}");
        let (route, _) = route.split_once("---\n").expect("a route and a Service");
        let route = route.replace("namespace: app}", "namespace: zoo}");
        format!(
            "{}---\n",
            route.replace("name: shop,", "name: shop, namespace: app,")
        )
    };
    let found = found(&(flood + &twin("one") + &twin("two")), &Options::machine());
    let overlaps = |name: &str| {
        let found = found
            .iter()
            .filter(|it| it.reason == Reason::RouteRulesOverlap);
        found.filter(|it| &*it.object.name.name == name).count()
    };
    assert!(overlaps("flood-01") > 0 && overlaps("two") > 0);
    assert_eq!(overlaps("flood-19"), 0, "it has no room left");
}

#[test]
fn a_tenant_without_end_leaves_room_for_others() {
    let room = super::super::room::Room::new(1_000);
    assert_eq!((0..100).filter(|_| room.take("a", 10)).count(), 50);
    assert!(room.take("b", 10));
}

#[test]
fn tenants_are_not_told_services_of_other_namespaces() {
    let route = route(
        "shop",
        "[{backendRefs: [{name: cart, namespace: web, port: 80}]}]",
    );
    let grant = grant(
        "group: gateway.networking.k8s.io, kind: HTTPRoute",
        "group: '', kind: Service, name: cart",
    );
    let grant = grant
        .replace("namespace: app}", "namespace: web}")
        .replace("namespace: web}],", "namespace: app}],");
    let service = SERVICE.replace("name: shop, namespace: app", "name: cart, namespace: web");
    let slice = slice(PORT, READY, "").replace("namespace: app", "namespace: web");
    let slice = slice.replace("service-name: shop", "service-name: carts");
    let text = format!("{GATEWAY}{route}{grant}{service}{slice}");
    for (others, is_told) in [(Others::Named, true), (Others::Hidden, false)] {
        let admitted = admit(&[Source::new("a.yaml", text.clone())]);
        assert_eq!(admitted.findings, []);
        let store: Store = admitted.objects.into_iter().map(|(it, _)| it).collect();
        let found = diagnose(&store, &Options::cluster(), others);
        let [found] = &*found else {
            panic!("{found:?}")
        };
        assert_eq!(found.text.contains("`carts`"), is_told, "{found}");
    }
}
