//! Which addresses may be gone to. A name is judged by what it resolves to at the moment of the connection, and only
//! what was judged is connected to: a name cannot mean one thing when it is looked at and another when it is used.

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What may be fetched from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchAddresses {
    /// Only what the whole internet can reach.
    Public,
    /// This machine and its networks too, but never where cloud providers hand out credentials.
    Private,
}

/// Who can be reached at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Anybody on the internet.
    Public,
    /// This machine, its networks, or nobody.
    Private,
    /// What no page is at: link-local addresses with the credentials of cloud machines, groups, tunnels.
    Never,
}

impl FetchAddresses {
    /// Whether this one is allowed.
    ///
    /// # Errors
    /// A sentence for the model.
    pub(super) fn check(self, host: &str, address: IpAddr) -> Result<(), String> {
        let at = if host == address.to_string() { String::new() } else { format!(" is at {address}, which") };
        match (standing(address), self) {
            (Standing::Public, _) | (Standing::Private, FetchAddresses::Private) => Ok(()),
            (Standing::Private, FetchAddresses::Public) => Err(format!(
                "{host}{at} is not a public address but one of this machine, its networks or a reserved range, and those \
                 are refused; only the user can allow them, with tools.fetch_private_addresses = true in the user's \
                 configuration or LEGWORK_TOOLS_FETCH_PRIVATE_ADDRESSES=true"
            )),
            (Standing::Never, _) => Err(format!(
                "{host}{at} is a link-local, metadata, group or tunnel address, and those are always refused"
            )),
        }
    }
}

/// Resolves names with the system's resolver and lets only allowed addresses through.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guard(pub(super) FetchAddresses);

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = self.0;
        Box::pin(async move {
            let host = name.as_str();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host, 0)).await?.collect();
            let refusal = found.iter().find_map(|found| allowed.check(host, found.ip()).err());
            let kept: Vec<SocketAddr> =
                found.into_iter().filter(|found| allowed.check(host, found.ip()).is_ok()).collect();
            match refusal {
                Some(refusal) if kept.is_empty() => Err(refusal.into()),
                Some(_) | None => Ok(Box::new(kept.into_iter()) as Addrs),
            }
        })
    }
}

/// A range: its first address and the number of bits that count.
type Range<A> = (A, u32);

/// Where no page is.
const NEVER_V4: &[Range<Ipv4Addr>] = &[
    (Ipv4Addr::new(100, 100, 100, 200), 32),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::BROADCAST, 32),
];

/// Ranges that are not public.
const PRIVATE_V4: &[Range<Ipv4Addr>] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// Where no page is: metadata of one provider, link-local and groups, and tunnels that lead to any IPv4.
const NEVER_V6: &[Range<Ipv6Addr>] = &[
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), 128),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
];

/// The one range that is given out for the internet.
const PUBLIC_V6: Range<Ipv6Addr> = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Ranges within it that are not public: special uses and examples.
const PRIVATE_V6: &[Range<Ipv6Addr>] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// The range that stands for IPv4 behind a translator.
const TRANSLATED: Range<Ipv6Addr> = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

fn standing(address: IpAddr) -> Standing {
    match address {
        IpAddr::V4(v4) => standing_v4(v4),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => standing_v4(v4),
            None if is_in_v6(v6, TRANSLATED) => standing_v4(last_32_bits(v6)),
            None => standing_v6(v6),
        },
    }
}

fn standing_v4(address: Ipv4Addr) -> Standing {
    let is_in = |(first, bits): &Range<Ipv4Addr>| (address.to_bits() ^ first.to_bits()) >> (32 - bits) == 0;
    if NEVER_V4.iter().any(is_in) {
        Standing::Never
    } else if PRIVATE_V4.iter().any(is_in) {
        Standing::Private
    } else {
        Standing::Public
    }
}

fn standing_v6(address: Ipv6Addr) -> Standing {
    let is_in = |ranges: &[Range<Ipv6Addr>]| ranges.iter().any(|range| is_in_v6(address, *range));
    if is_in(NEVER_V6) {
        Standing::Never
    } else if is_in(PRIVATE_V6) || !is_in(&[PUBLIC_V6]) {
        Standing::Private
    } else {
        Standing::Public
    }
}

fn is_in_v6(address: Ipv6Addr, (first, bits): Range<Ipv6Addr>) -> bool {
    (address.to_bits() ^ first.to_bits()) >> (128 - bits) == 0
}

fn last_32_bits(address: Ipv6Addr) -> Ipv4Addr {
    let [.., a, b, c, d] = address.octets();
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(standing: Standing, addresses: &str) {
        for text in addresses.split_whitespace() {
            assert_eq!(super::standing(text.parse().expect("an address")), standing, "{text}");
        }
    }

    #[test]
    fn only_what_the_internet_reaches_is_public() {
        let public = Standing::Public;
        check(public, "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 172.15.255.255");
        check(public, "172.32.0.0 192.167.255.255 198.17.255.255 198.20.0.0 223.255.255.255 2606:4700::1111");
        check(public, "::ffff:8.8.8.8 64:ff9b::8.8.8.8 2001:4860:4860::8888 2a00:1450::1");
        let private = Standing::Private;
        check(
            private,
            "0.0.0.0 10.1.2.3 100.64.0.1 100.127.255.255 127.0.0.1 127.9.9.9 172.16.0.1 192.168.1.1",
        );
        check(
            private,
            "172.31.255.255 192.0.0.1 192.0.2.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.9",
        );
        check(private, "240.0.0.1 :: ::1 ::127.0.0.1 ::ffff:127.0.0.1 64:ff9b::10.0.0.1 64:ff9b:1::1 100::1");
        check(private, "2001:1ff::1 2001:db8::1 3fff::1 fc00::1 fd12::1 fec0::1");
        let never = Standing::Never;
        check(never, "169.254.169.254 169.254.170.2 100.100.100.200 224.0.0.1 239.1.1.1 255.255.255.255");
        check(never, "::ffff:169.254.169.254 64:ff9b::169.254.169.254 fd00:ec2::254 fe80::1 ff02::1");
        check(never, "2002:7f00:1::1 2001:0:1::1");
    }

    #[test]
    fn a_refusal_names_the_setting_where_there_is_one() {
        let [here, metadata] = ["127.0.0.1", "169.254.169.254"].map(|text| text.parse().expect("an address"));
        let words = FetchAddresses::Public.check("intern", here).expect_err("it is this machine");
        assert!(words.starts_with("intern is at 127.0.0.1, which is not a public address"), "{words}");
        assert!(words.contains("tools.fetch_private_addresses"), "{words}");
        assert_eq!(FetchAddresses::Private.check("intern", here), Ok(()));
        for allowed in [FetchAddresses::Public, FetchAddresses::Private] {
            let words = allowed.check("169.254.169.254", metadata).expect_err("nobody may go there");
            assert!(
                words.starts_with("169.254.169.254 is a link-local, metadata")
                    && words.ends_with("always refused"),
                "{words}"
            );
        }
    }
}
