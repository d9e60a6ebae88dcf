/** Ceilings for one message, as it came and before anybody believes a word of it. */
export interface MessageLimits {
  readonly bytes: number
  readonly depth: number
  /** Members and elements in all. */
  readonly nodes: number
  /** Of one text; in JSON the bytes of the message are ceiling enough. */
  readonly stringBytes: number
}

export const defaultMessageLimits: MessageLimits = {
  bytes: 1_048_576,
  depth: 64,
  nodes: 10_000,
  stringBytes: 262_144,
}
