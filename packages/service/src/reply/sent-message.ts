import type { Codec, SentMessage } from '../brokers/codecs/codec.ts'
import { packMessage } from '../brokers/packed-message.ts'
import type { ReplyAddress } from '../storage/calls/call-store.ts'

/** Encodes a message of a tool for the gateway that called it; undefined when its codec has no form for messages. */
export function messageEncoder(codecs: ReadonlyMap<string, Codec>) {
  return (address: ReplyAddress, sent: SentMessage): { readonly target: string; readonly body: string } | undefined => {
    const message = codecs.get(address.codec)?.send?.(address, sent, new Date())
    return message === undefined ? undefined : { target: message.to, body: packMessage(address.transport, message) }
  }
}
