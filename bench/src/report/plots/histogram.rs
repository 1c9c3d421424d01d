//! How many of each class there are, beside each other.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{GRID, INK, SOFT, WIDTH, draw, figure, peer_colour, plot_error, words};
use crate::stats::count;

#[derive(Debug, Clone)]
pub(crate) struct PeerValues<'a> {
    pub(crate) peer: &'a str,
    pub(crate) values: &'a [f64],
}

/// Shares of the values up to each of these bounds, and beyond the last.
pub(crate) fn histogram(all: &[PeerValues<'_>], bounds: &[f64], unit: &str) -> Result<String> {
    let classes = i32::try_from(bounds.len())? + 1;
    let width = (RIGHT - LEFT) / classes;
    let shares: Vec<Vec<f64>> = all.iter().map(|it| shares(it.values, bounds)).collect();
    let bar = (width - 8) / i32::try_from(all.len().max(1))?;
    draw(HEIGHT, |area| {
        words(area, "share, %", (LEFT, TOP - 20), HPos::Left, SOFT, 13)?;
        for percent in [0, 25, 50, 75, 100] {
            let y = up(f64::from(percent));
            let line = PathElement::new(vec![(LEFT, y), (RIGHT, y)], GRID.stroke_width(1));
            area.draw(&line).map_err(plot_error)?;
            words(
                area,
                &percent.to_string(),
                (LEFT - 10, y),
                HPos::Right,
                SOFT,
                13,
            )?;
        }
        for (number, peer) in (0..).zip(all) {
            let colour = peer_colour(peer.peer);
            let of_peer = shares.get(usize::try_from(number)?).into_iter().flatten();
            for (class, share) in (0..).zip(of_peer) {
                let left = LEFT + class * width + 4 + number * bar;
                let body = [(left, up(*share)), (left + bar - 1, up(0.0))];
                area.draw(&Rectangle::new(body, colour.filled()))
                    .map_err(plot_error)?;
            }
            let y = TOP + 6 + number * 22;
            let key = [(RIGHT + 24, y - 6), (RIGHT + 46, y + 6)];
            area.draw(&Rectangle::new(key, colour.filled()))
                .map_err(plot_error)?;
            words(area, peer.peer, (RIGHT + 54, y), HPos::Left, INK, 13)?;
        }
        for class in 0..classes {
            let bound = bounds.get(usize::try_from(class)?);
            let name = bound.map_or("more".to_owned(), |it| format!("≤ {}", figure(*it)));
            let middle = LEFT + class * width + width / 2;
            words(area, &name, (middle, BOTTOM + 18), HPos::Center, SOFT, 12)?;
        }
        let middle = i32::midpoint(LEFT, RIGHT);
        words(area, unit, (middle, BOTTOM + 40), HPos::Center, SOFT, 13)
    })
}

/// Percent of the values in each class.
fn shares(values: &[f64], bounds: &[f64]) -> Vec<f64> {
    let mut counts = vec![0_usize; bounds.len() + 1];
    for value in values {
        let class = bounds.partition_point(|bound| bound < value);
        if let Some(count) = counts.get_mut(class) {
            *count += 1;
        }
    }
    let all = count(values.len()).max(1.0);
    counts
        .into_iter()
        .map(|it| count(it) / all * 100.0)
        .collect()
}

/// Where a percentage is.
#[expect(
    clippy::cast_possible_truncation,
    reason = "at most the size of the picture"
)]
fn up(percent: f64) -> i32 {
    BOTTOM - (percent / 100.0 * f64::from(BOTTOM - TOP)) as i32
}

const HEIGHT: u32 = 340;
const LEFT: i32 = 70;
const RIGHT: i32 = WIDTH.cast_signed() - 200;
const TOP: i32 = 40;
const BOTTOM: i32 = 285;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_bounds_of_buckets_are_inclusive() {
        assert_eq!(shares(&[1.0, 2.0, 2.5, 9.0], &[1.0, 2.0, 5.0]), [25.0; 4]);
        assert_eq!(shares(&[], &[1.0]), [0.0, 0.0]);
    }

    #[test]
    fn every_peer_and_class_is_named() {
        let of = |peer| PeerValues {
            peer,
            values: &[1.0, 3.0],
        };
        let svg = histogram(&[of("gateway"), of("envoy-gateway")], &[1.0, 2.0], "ms");
        let svg = svg.expect("draws");
        for name in ["gateway", "envoy-gateway", "≤ 2.00", "more"] {
            assert!(svg.contains(name), "{name}");
        }
    }
}
