//! Nothing shows the keys.

use super::*;

#[tokio::test]
async fn keys_are_in_no_log_status_or_metric() {
    let server = ApiServer::default();
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    // With one dispatcher alone, `tracing` asks that of the thread which first meets an event, such as that of another
    // test, whether it is ever wanted. With two it asks both.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let _subscribed = tracing::subscriber::set_default(subscriber);
    let mut leader = Replica::leader(&server);
    leader.steps_after(SECOND).await;
    leader.asks_for_another_key();
    leader.steps_after(2 * SECOND).await;
    leader.steps_after(11 * MINUTE).await;
    let problem = leader.problem().expect("the new key waits");
    let log = lines.text();
    assert!(log.contains("a new key is accepted"), "{log}");
    let shown = [
        ("log", log),
        ("metrics", leader.registry.text()),
        ("condition", format!("{problem:?}")),
        (
            "outputs",
            format!("{:?} {:#?}", leader.outputs, leader.keys()),
        ),
    ];
    for key in leader.keys().accepted() {
        let bytes = key.secret();
        let hex = bytes.iter().map(|byte| format!("{byte:02x}"));
        let hex = hex.collect::<Vec<_>>().concat();
        let decimals = bytes.iter().take(8).map(u8::to_string).collect::<Vec<_>>();
        for (place, text) in &shown {
            for form in [STANDARD.encode(bytes), hex.clone(), decimals.join(", ")] {
                assert!(!text.contains(&form), "{place} has {form}");
            }
        }
    }
}

/// What was logged.
#[derive(Clone, Default)]
struct Lines(Arc<std::sync::Mutex<Vec<u8>>>);

impl Lines {
    fn text(&self) -> String {
        let bytes = self.0.lock().expect("no holder panics");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no holder panics").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
