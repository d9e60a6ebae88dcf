import { unlessAborted } from '@gantry/core/internal/resilience/abort'
import { ownerLabel } from './container-policy.ts'
import { addressText, type DockerClient } from './docker-client.ts'
import type { ContainerEnd } from './engine.ts'

/** What the engine reports of one container. */
export interface Watched {
  isOutOfMemory(): boolean
  readonly died: Promise<ContainerEnd>
  forget(): void
}

/**
 * Hears of the ends of all containers of an owner by one stream. When that breaks, the containers count as lost, and the
 * next start connects again, because an engine may be restarted under us.
 */
export interface Watcher {
  /** Resolves when the stream is open; called before a container is created, so that its end is not missed. */
  connect(signal: AbortSignal): Promise<void>
  watch(id: string): Watched
  close(): Promise<void>
}

interface DockerEvent {
  readonly Action?: string
  readonly Actor?: { readonly ID?: string; readonly Attributes?: { readonly exitCode?: string } }
}

export async function watchContainers(client: DockerClient, owner: string, signal: AbortSignal): Promise<Watcher> {
  const closing = new AbortController()
  const watched = new Map<string, { outOfMemory: boolean; readonly died: PromiseWithResolvers<ContainerEnd> }>()
  const lost: ContainerEnd = {
    kind: 'lost',
    reason: `The connection to Docker at ${addressText(client.address)} was lost.`,
  }
  /** Undefined while there is no connection. */
  let stream: Promise<{ readonly ended: Promise<void> }> | undefined
  const filters = { label: [`${ownerLabel}=${owner}`], event: ['die', 'oom'] }
  const path = `/events?filters=${encodeURIComponent(JSON.stringify(filters))}`
  const take = (event: unknown): void => {
    const { Action, Actor } = event as DockerEvent
    const one = watched.get(Actor?.ID ?? '')
    if (one === undefined) return
    if (Action === 'oom') one.outOfMemory = true
    if (Action === 'die') one.died.resolve({ kind: 'exited', code: Number(Actor?.Attributes?.exitCode ?? 255) })
  }
  const open = async (): Promise<{ readonly ended: Promise<void> }> => {
    try {
      const opened = await client.events(path, take, closing.signal)
      void opened.ended.then(() => {
        stream = undefined
        for (const { died } of watched.values()) died.resolve(lost)
      })
      return opened
    } catch (error) {
      stream = undefined
      throw error
    }
  }
  const connect = async (given: AbortSignal): Promise<void> => {
    stream ??= open()
    await unlessAborted(stream, given)
  }
  await connect(signal)
  return {
    connect,
    watch(id) {
      const one = { outOfMemory: false, died: Promise.withResolvers<ContainerEnd>() }
      watched.set(id, one)
      if (stream === undefined) one.died.resolve(lost)
      return { isOutOfMemory: () => one.outOfMemory, died: one.died.promise, forget: () => void watched.delete(id) }
    },
    async close() {
      closing.abort()
      await (await stream?.catch(() => undefined))?.ended
    },
  }
}
