//! How long a provider asks to wait, from the headers of an error response.

use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use std::time::{Duration, SystemTime};

/// Milliseconds; finer than `Retry-After` and preferred where both are sent.
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// The wait that the headers ask for. A date is measured against the response's own date, so that a wrong clock on
/// either side does no harm; only without one is the clock of this machine read.
pub(super) fn read(headers: &HeaderMap) -> Option<Duration> {
    let milliseconds = text(headers, &RETRY_AFTER_MS).and_then(|text| text.parse::<f64>().ok());
    if let Some(wait) = milliseconds.and_then(|milliseconds| seconds(milliseconds / 1000.0)) {
        return Some(wait);
    }
    let asked = text(headers, &RETRY_AFTER)?;
    match asked.parse::<f64>() {
        Ok(number) => seconds(number),
        Err(_) => {
            let until = httpdate::parse_http_date(asked).ok()?;
            let sent = text(headers, &DATE).and_then(|date| httpdate::parse_http_date(date).ok());
            let now = sent.unwrap_or_else(SystemTime::now);
            // A date that has passed means: at once.
            Some(until.duration_since(now).unwrap_or_default())
        }
    }
}

/// A number of seconds as a duration; none where it is negative or no number of this world.
pub(super) fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    fn check(pairs: &[(&'static str, &'static str)], expected: Option<Duration>) {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        assert_eq!(read(&pairs.iter().map(pair).collect()), expected, "{pairs:?}");
    }

    #[test]
    fn seconds_and_milliseconds() {
        check(&[("retry-after", "3")], Some(Duration::from_secs(3)));
        check(&[("retry-after", " 1.5 ")], Some(Duration::from_millis(1500)));
        check(&[("retry-after", "3"), ("retry-after-ms", "250")], Some(Duration::from_millis(250)));
    }

    #[test]
    fn a_date_is_measured_against_the_date_of_the_response() {
        let (date, until) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:50:37 GMT");
        check(&[("date", date), ("retry-after", until)], Some(Duration::from_secs(60)));
        check(&[("date", until), ("retry-after", date)], Some(Duration::ZERO));
        check(&[("retry-after", date)], Some(Duration::ZERO));
    }

    #[test]
    fn nonsense_is_no_wait() {
        for value in ["", "soon", "-1", "NaN", "1e400"] {
            check(&[("retry-after", value)], None);
        }
        check(&[], None);
    }
}
