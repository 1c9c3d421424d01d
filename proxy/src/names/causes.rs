//! Causes: why something was refused, or came to nothing.

/// Why something was refused, or came to nothing; one of a fixed few.
pub trait Cause: Copy + 'static {
    /// Every one, in the order of their numbers.
    const EVERY: &'static [Self];

    /// Its number.
    fn index(self) -> usize;

    /// Its name in metrics.
    fn name(self) -> &'static str;
}

/// Makes an enumeration of causes, each with its name in logs and metrics.
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
            /// Every one; metrics are laid out by it.
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
