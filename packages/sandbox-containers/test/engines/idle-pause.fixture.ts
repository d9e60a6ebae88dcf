import assert from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import type { Sandbox } from '@gantry/sandbox'

/** Pauses a sandbox as soon as it can be: runc does not freeze processes on a busy machine that still start. */
export async function pauseIdle({ pausing }: Sandbox): Promise<void> {
  assert.ok(pausing)
  const { signal } = new AbortController()
  for (let tries = 0; ; tries += 1) {
    try {
      return await pausing.pause(signal)
    } catch (error) {
      if (tries === 20) throw error
      await delay(500)
    }
  }
}
