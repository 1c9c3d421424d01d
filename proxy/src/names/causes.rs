//! Causes of rejections and failures.

/// One of a fixed set of causes of a rejection or failure.
pub trait Cause: Copy + 'static {
    /// All causes, in the order of their numbers.
    const EVERY: &'static [Self];

    /// Its index in [`Self::EVERY`].
    fn index(self) -> usize;

    /// Its name in metrics.
    fn name(self) -> &'static str;
}

/// Defines an enum of causes with their names in logs and metrics.
macro_rules! causes {
    (
        $(#[$about:meta])*
        $name:ident;
        $($(#[$doc:meta])* $cause:ident $reason:literal;)*
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$doc])* #[doc = concat!(" (`", $reason, "`)")] $cause,)*
        }

        impl $name {
            /// All causes, in the order that metrics are indexed by.
            pub const ALL: &'static [Self] = &[$(Self::$cause),*];

            /// Its name in logs and metrics.
            #[must_use]
            pub fn reason(self) -> &'static str {
                match self {
                    $(Self::$cause => $reason,)*
                }
            }
        }

        impl $crate::names::Cause for $name {
            const EVERY: &'static [Self] = Self::ALL;

            fn index(self) -> usize {
                self as usize
            }

            fn name(self) -> &'static str {
                self.reason()
            }
        }
    };
}
pub(crate) use causes;
