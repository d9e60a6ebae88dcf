import type { ChildProcess } from 'node:child_process'
import { pairMs } from '../pools/pool.ts'
import { channelsOf, spawnChild } from './launched.ts'

/**
 * A launcher that waits for its plan, because to start one holds this process up for milliseconds. It is started once
 * sandboxes follow one another, while the last of them is being made, and goes when none is asked for.
 * - Ownership: one that was taken is the taker's. One that waits ends with this process, like all launchers: its channel ends.
 */
export interface Spares {
  /** The one that waits; undefined when there is none. */
  take(): ChildProcess | undefined
  /** Ends the one that waits; none is started after that. */
  close(): Promise<void>
}

export function createSpares(binary: string): Spares {
  let spare: { readonly child: ChildProcess; readonly timer: NodeJS.Timeout } | undefined
  let last = Number.NEGATIVE_INFINITY
  let closed = false

  const remove = (): ChildProcess | undefined => {
    const child = spare?.child
    clearTimeout(spare?.timer)
    spare = undefined
    return child
  }
  const start = (): void => {
    if (closed || spare !== undefined) return
    const child = trySpawn(binary)
    if (child === undefined) return
    spare = { child, timer: setTimeout(() => void hangUp(remove()), pairMs).unref() }
    child.once('exit', () => {
      if (spare?.child === child) remove()
    })
    for (const one of [child, ...channelsOf(child)]) {
      one.on('error', () => undefined)
      one.unref()
    }
  }
  return {
    take() {
      const now = performance.now()
      // After the caller has sent its plan.
      if (now - last < pairMs) setImmediate(start)
      last = now
      return remove()
    },
    async close() {
      closed = true
      await hangUp(remove())
    },
  }
}

/** A failure is ignored here: the next start tries again and reports it. */
function trySpawn(binary: string): ChildProcess | undefined {
  try {
    const child = spawnChild(binary)
    child.once('error', () => undefined)
    return child.pid === undefined ? undefined : child
  } catch {
    return undefined
  }
}

/** Ends one that has no plan yet, which it does when its channel ends. */
async function hangUp(child: ChildProcess | undefined): Promise<void> {
  if (child === undefined) return
  const gone = new Promise<void>((resolve) => child.once('close', () => resolve()))
  child.ref()
  for (const channel of channelsOf(child)) channel.destroy()
  await gone
}
