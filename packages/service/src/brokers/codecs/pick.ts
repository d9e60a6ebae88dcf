import type { Message } from '../transports/message.ts'
import type { Codec } from './codec.ts'

/** The first codec that the message looks like one of; undefined when it is in nobody's language. */
export function pickCodec(codecs: readonly Codec[], message: Message): Codec | undefined {
  return codecs.find((codec) => codec.speaks(message))
}
