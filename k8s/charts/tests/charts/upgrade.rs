//! Upgrades from the release before: what `helm upgrade --reuse-values` takes from its chart.

use charts::{Helm, path};

use crate::read;

/// Values with which a chart renders as that of the release before would have it: without the values that
/// it did not have.
fn without_new_values(values: &str) -> String {
    format!("gatewayClass: null\nrbac: null\n{values}")
}

#[test]
fn values_of_the_chart_before_render_as_the_defaults() {
    let Some(helm) = Helm::find() else { return };
    for name in ["default", "everything", "monitoring"] {
        let values = read(&path(&format!("tests/golden/{name}.values.yaml")));
        let before = without_new_values(values.trim_start_matches("{}"));
        let rendered = helm.template("gateway", &before).expect(name);
        let expected = helm.template("gateway", &values).expect(name);
        assert!(rendered == expected, "{name} differs:\n{rendered}");
        let notes = helm.notes("gateway", &before).expect(name);
        assert_eq!(notes, helm.notes("gateway", &values).expect(name), "{name}");
    }
}

/// The variables were the only way to set a class before the chart had a value for it.
#[test]
fn a_class_in_the_extra_environment_is_that_of_the_installation() {
    let Some(helm) = Helm::find() else { return };
    let variables = "CONTROLLER_GATEWAY_CLASS: edge, CONTROLLER_NAME: {value: example.com/edge}";
    let values =
        format!("controller: {{extraEnv: {{{variables}}}}}\nmonitoring: {{enabled: true}}");
    for values in [without_new_values(&values), values] {
        let objects = helm.objects("gateway", &values).expect("it renders");
        let object = |title: &str| {
            let object = objects.iter().find(|object| object.title() == title);
            object.unwrap_or_else(|| panic!("there is no {title}"))
        };
        let environment = "/spec/template/spec/containers[controller]/env";
        let environment = object("Deployment/gateway").at(environment).as_array();
        for (name, wanted) in [
            ("CONTROLLER_GATEWAY_CLASS", "edge"),
            ("CONTROLLER_NAME", "example.com/edge"),
        ] {
            let set = environment.into_iter().flatten();
            let set: Vec<_> = set.filter(|it| it["name"] == name).collect();
            assert_eq!(set.len(), 1, "{name} is set {set:?}");
            assert_eq!(set[0]["value"], wanted);
        }
        let labels = object("ServiceMonitor/gateway-proxy").at("/spec/selector/matchLabels");
        assert_eq!(
            labels["gateway.networking.k8s.io/gateway-class-name"],
            "edge"
        );
        let notes = helm.notes("gateway", &values).expect("it renders");
        assert!(notes.contains("kubectl get gatewayclass edge"), "{notes}");
        let warning = "extraEnv.CONTROLLER_GATEWAY_CLASS is used instead of gatewayClass.name";
        assert!(notes.contains(warning), "{notes}");
    }
}
