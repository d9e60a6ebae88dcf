import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { ToolError } from '@gantry/contract'

/**
 * Memory that one machine fills and from which others start: an anonymous file of the kernel, which is never on a disk.
 * Sealed, it can be mapped privately and no more be written, by no process.
 */
export interface SnapshotMemory {
  /** A descriptor of this process. */
  readonly descriptor: number
  /** Call when the machine that filled it has ended. Rejects with SANDBOX_INIT_FAILED while it is still mapped. */
  seal(): Promise<void>
  close(): void
}

/** Made by the native launcher, because Node cannot. */
export async function createSnapshotMemory(launcher: string, bytes: number): Promise<SnapshotMemory> {
  const helper = spawn(launcher, ['memory', String(bytes)], { stdio: ['pipe', 'pipe', 'ignore'], env: {} })
  const exited = once(helper, 'exit')
  exited.catch(() => undefined)
  const lines = createInterface({ input: helper.stdout })[Symbol.asyncIterator]()
  const first = await lines.next()
  const number = first.done === true ? '' : first.value
  if (!/^\d{1,4}$/.test(number)) {
    helper.kill('SIGKILL')
    throw new ToolError('SANDBOX_INIT_FAILED', 'The memory of a snapshot could not be made.')
  }
  const descriptor = openOf(helper, number)
  let isOpen = true
  return {
    descriptor,
    async seal() {
      helper.stdin.end()
      const [code] = await exited
      if (code !== 0) throw new ToolError('SANDBOX_INIT_FAILED', 'The memory of a snapshot could not be sealed.')
    },
    close() {
      if (!isOpen) return
      isOpen = false
      helper.kill('SIGKILL')
      closeSync(descriptor)
    },
  }
}

/** A helper whose memory cannot be opened must not wait for the end of this process. */
function openOf(helper: ChildProcess, number: string): number {
  try {
    return openSync(`/proc/${helper.pid}/fd/${number}`, 'r+')
  } catch (cause) {
    helper.kill('SIGKILL')
    throw new ToolError('SANDBOX_INIT_FAILED', 'The memory of a snapshot could not be opened.', { cause })
  }
}
