import { ToolError } from '@gantry/contract'
import { retry } from '@gantry/core/internal/resilience/retry'
import type { Runtime, Sandbox, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'

/** A start that failed is tried again this often and this soon. */
const rule = { attempts: 3, delayMs: 25, maxDelayMs: 250 }

/**
 * Does work that begins with the start of a sandbox; when the sandbox did not start, does it again, three times in all.
 * - Cancellation: between two attempts the signal ends the wait; the work looks after itself.
 * - Errors: SANDBOX_INIT_FAILED with the number of attempts and the last failure as its cause and `details.reason`; every other error, and so
 *   everything that came after the program began, is thrown as it is and ends the attempts.
 */
export async function startThrice<T>(
  kind: string,
  work: (attempt: number) => Promise<T>,
  signal: AbortSignal,
  random?: () => number,
): Promise<{ readonly value: T; readonly attempts: number }> {
  let attempts = 0
  const tried = (attempt: number): Promise<T> => {
    attempts = attempt
    return work(attempt)
  }
  try {
    const value = await retry(tried, { rule, mayRepeat: didNotStart, signal, ...(random && { random }) })
    return { value, attempts }
  } catch (error) {
    if (!didNotStart(error)) throw error
    signal.throwIfAborted()
    throw new ToolError('SANDBOX_INIT_FAILED', `A sandbox (${kind}) did not start, tried ${attempts} times.`, {
      cause: error,
      details: { runtime: kind, attempts, reason: reasonOf(error) },
    })
  }
}

/** Opens a sandbox; whatever a runtime throws when it cannot becomes SANDBOX_INIT_FAILED. */
export async function openSandbox(runtime: Runtime, spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox> {
  try {
    return await runtime.open(spec, signal)
  } catch (error) {
    signal.throwIfAborted()
    if (ToolError.is(error)) throw error
    throw new ToolError('SANDBOX_INIT_FAILED', 'The sandbox did not start.', { cause: error })
  }
}

/** Waits until a sandbox is gone; a runtime that fails at that must not change what became of the program. */
export async function disposeOf(sandbox: Sandbox): Promise<void> {
  try {
    await sandbox.dispose()
  } catch {
    // The contract says that it never rejects.
  }
}

const longestReason = 500

/** What the runtime said last; a text of our own, because a start that failed is always a ToolError here. */
function reasonOf(error: unknown): string {
  return ToolError.is(error) ? error.message.slice(0, longestReason) : 'The runtime gave no reason.'
}

function didNotStart(error: unknown): boolean {
  return ToolError.is(error) && error.code === 'SANDBOX_INIT_FAILED'
}
