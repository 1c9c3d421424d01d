//! Protobuf messages in gRPC frames, for [`tonic`].

use std::fmt;
use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Encodes messages of type `E`, and decodes those of type `D`.
pub struct Prost<E, D>(PhantomData<fn(E) -> D>);

/// The encoder of [`Prost`].
pub struct ProstEncoder<E>(PhantomData<fn(E)>);

/// The decoder of [`Prost`].
pub struct ProstDecoder<D>(PhantomData<fn() -> D>);

impl<E, D> Default for Prost<E, D> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<D> Default for ProstDecoder<D> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E, D> fmt::Debug for Prost<E, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prost")
    }
}

impl<E> fmt::Debug for ProstEncoder<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProstEncoder")
    }
}

impl<D> fmt::Debug for ProstDecoder<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProstDecoder")
    }
}

impl<E, D> Codec for Prost<E, D>
where
    E: Message + 'static,
    D: Message + Default + 'static,
{
    type Encode = E;
    type Decode = D;
    type Encoder = ProstEncoder<E>;
    type Decoder = ProstDecoder<D>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder(PhantomData)
    }
}

impl<E: Message> Encoder for ProstEncoder<E> {
    type Item = E;
    type Error = Status;

    fn encode(&mut self, item: E, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        let encoded = item.encode(to);
        encoded.map_err(|error| Status::internal(format!("a message cannot be encoded: {error}")))
    }
}

impl<D: Message + Default> Decoder for ProstDecoder<D> {
    type Item = D;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<D>, Status> {
        let decoded = D::decode(from).map(Some);
        let invalid = "a message does not conform to its protocol file";
        decoded.map_err(|error| Status::invalid_argument(format!("{invalid}: {error}")))
    }
}
