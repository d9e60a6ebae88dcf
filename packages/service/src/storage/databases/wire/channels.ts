type Hear = (payload: string | undefined) => void

/** Who listens on which channel. */
export interface Channels {
  names(): string[]
  add(channel: string, hear: Hear): void
  /** Answers whether nobody listens on the channel any more. */
  remove(channel: string, hear: Hear): boolean
  tell(channel: string, payload: string): void
  /** Tells everybody to look for himself. */
  tellAll(): void
}

export function createChannels(): Channels {
  const channels = new Map<string, Set<Hear>>()
  return {
    names: () => [...channels.keys()],
    add(channel, hear) {
      const listeners = channels.get(channel) ?? new Set()
      channels.set(channel, listeners.add(hear))
    },
    remove(channel, hear) {
      const listeners = channels.get(channel)
      listeners?.delete(hear)
      return listeners?.size === 0 && channels.delete(channel)
    },
    tell(channel, payload) {
      for (const hear of channels.get(channel) ?? []) hear(payload)
    },
    tellAll() {
      for (const listeners of channels.values()) for (const hear of listeners) hear(undefined)
    },
  }
}

/** A channel's name as part of a statement, where parameters are not possible. */
export function quoted(channel: string): string {
  return `"${channel.replaceAll('"', '""')}"`
}
