import type { Sandbox } from '@gantry/core/internal/runtimes/runtime'

/** The end of sandboxes after their run. */
export interface Disposals {
  /**
   * Waits until nothing in the sandbox runs any more. Where the runtime knows that before the sandbox is removed, the
   * removal goes on in the background, unless as many as may are removed there already. Never rejects.
   */
  end(sandbox: Sandbox): Promise<void>
  /** Waits for the removals in the background. */
  settled(): Promise<void>
}

/** An engine that removes sandboxes more slowly than programs end must slow the programs, not collect dead sandboxes. */
const mostAside = 16

export function createDisposals(most = mostAside): Disposals {
  const aside = new Set<Promise<void>>()
  return {
    async end(sandbox) {
      const isDead = aside.size < most && (await isKilled(sandbox))
      const removed = disposeOf(sandbox)
      if (!isDead || aside.size >= most) return removed
      aside.add(removed)
      void removed.then(() => aside.delete(removed))
    },
    async settled() {
      while (aside.size > 0) await Promise.all(aside)
    },
  }
}

async function isKilled(sandbox: Sandbox): Promise<boolean> {
  try {
    return (await sandbox.kill?.()) ?? false
  } catch {
    return false
  }
}

/** Waits until a sandbox is disposed; a runtime that fails to dispose must not change the outcome of the program. */
export async function disposeOf(sandbox: Sandbox): Promise<void> {
  try {
    await sandbox.dispose()
  } catch {
    // The contract of `dispose` is that it never rejects.
  }
}
