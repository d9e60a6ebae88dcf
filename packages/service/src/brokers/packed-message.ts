import type { Outgoing } from './transports/message.ts'

interface Packed {
  readonly transport: string
  readonly to: string
  readonly key?: string
  readonly headers?: { readonly [name: string]: string }
  readonly base64: string
}

/** A message as text, to be kept until it is sent. */
export function packMessage(transport: string, { bytes, ...rest }: Outgoing): string {
  const packed: Packed = { transport, ...rest, base64: Buffer.from(bytes).toString('base64') }
  return JSON.stringify(packed)
}

export function unpackMessage(text: string): { readonly transport: string; readonly message: Outgoing } {
  const { transport, base64, ...rest } = JSON.parse(text) as Packed
  return { transport, message: { ...rest, bytes: Buffer.from(base64, 'base64') } }
}
