/** A message of a broker as it came; everything in it is as hostile as its sender. */
export interface Message {
  readonly bytes: Uint8Array
  readonly headers: ReadonlyMap<string, Uint8Array>
  /** The topic or the stream. */
  readonly source: string
  /** Where it stands in there, the same at every delivery: partition and offset, or the id of the entry. */
  readonly position: string
}

/** A message for a broker. */
export interface Outgoing {
  /** The topic or the stream. */
  readonly to: string
  readonly bytes: Uint8Array
  /** Messages with the same key keep their order, where the broker has one. */
  readonly key?: string
  readonly headers?: { readonly [name: string]: string }
}

/** What became of one message. `error` is a sentence for people. */
export type Sent =
  | { readonly kind: 'sent' }
  | { readonly kind: 'again'; readonly error: string }
  /** Trying again would be no use. */
  | { readonly kind: 'never'; readonly error: string }

/**
 * Sends messages to a broker.
 * - Durability: `sent` means that the broker has it as safely as it keeps anything.
 * - Concurrency: any number of `send` at once; messages of one `send` with the same target and key keep their order.
 * - Errors: never rejects; answers in order, one for each message.
 */
export interface Publisher {
  send(messages: readonly Outgoing[], signal: AbortSignal): Promise<readonly Sent[]>
  close(): Promise<void>
}

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
