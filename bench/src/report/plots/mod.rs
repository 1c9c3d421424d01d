//! The plots of a report, as SVG.

mod bars;
mod chart;
mod histogram;
mod scale;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub(crate) use bars::{Bar, bars};
pub(crate) use chart::{Line, course, growth, latency};
pub(crate) use histogram::{PeerValues, histogram};

use crate::peers::Role;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Three digits are all that a measurement is worth.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        v if v >= 1e6 => format!("{:.1}M", value / 1e6),
        v if v >= 1e5 => format!("{:.0}k", value / 1e3),
        v if v >= 1e4 => format!("{:.1}k", value / 1e3),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v > 0.0 => format!("{value:.2}"),
        _ => "0".to_owned(),
    }
}

fn draw(height: u32, paint: impl FnOnce(&Area<'_>) -> Result<()>) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE).map_err(plot_error)?;
        paint(&area)?;
        area.present().map_err(plot_error)?;
    }
    Ok(svg)
}

fn words(
    area: &Area<'_>,
    text: &str,
    at: (i32, i32),
    from: HPos,
    colour: RGBColor,
    size: i32,
) -> Result<()> {
    let style = TextStyle::from(("sans-serif", size)).color(&colour);
    let style = style.pos(Pos::new(from, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style))
        .map_err(plot_error)
}

fn plot_error(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}

fn role_colour(role: Role) -> RGBColor {
    match role {
        Role::Gateway => RGBColor(11, 110, 79),
        Role::Floor => RGBColor(170, 178, 189),
        Role::Peer => RGBColor(96, 125, 173),
    }
}

/// Fixed for each peer, so that it is the same on every plot.
fn peer_colour(peer: &str) -> RGBColor {
    match peer {
        "gateway-io-uring" | "gateway" | "gateway controller" | "gateway p50" => {
            RGBColor(11, 110, 79)
        }
        "gateway-epoll" | "gateway proxies" | "gateway longest" => RGBColor(102, 187, 106),
        "relay-epoll" => RGBColor(170, 178, 189),
        "relay-io-uring" => RGBColor(120, 130, 145),
        "haproxy-tcp" => RGBColor(141, 170, 214),
        "haproxy" => RGBColor(38, 84, 166),
        "nginx" => RGBColor(214, 122, 0),
        "envoy" | "envoy-gateway" | "envoy-gateway controller" | "envoy-gateway p50" => {
            RGBColor(150, 60, 160)
        }
        "envoy-gateway proxies" | "envoy-gateway longest" => RGBColor(206, 147, 216),
        _ => RGBColor(190, 50, 50),
    }
}

const INK: RGBColor = RGBColor(29, 36, 48);
const SOFT: RGBColor = RGBColor(91, 102, 117);
const GRID: RGBColor = RGBColor(228, 232, 238);
const WIDTH: u32 = 960;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        let formatted = [0.0, 0.456, 13.64, 252.3, 9876.0, 28_900.0, 2.5e6].map(figure);
        assert_eq!(
            formatted,
            ["0", "0.46", "13.6", "252", "9876", "28.9k", "2.5M"]
        );
    }
}
