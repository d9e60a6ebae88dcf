import type { Codec, SentMessage } from '../brokers/codecs/codec.ts'
import { packMessage } from '../brokers/packed-message.ts'
import type { ReplyAddress } from '../storage/calls/call-store.ts'

/** A message of a tool in the language of the gateway that called it; undefined when that has no place for it. */
export function sentMessage(
  codecs: ReadonlyMap<string, Codec>,
  address: ReplyAddress,
  sent: SentMessage,
): { readonly target: string; readonly body: string } | undefined {
  const message = codecs.get(address.codec)?.send?.(address, sent, new Date())
  return message === undefined ? undefined : { target: message.to, body: packMessage(address.transport, message) }
}
