import { duplexPair } from 'node:stream'
import { createFrameReader, encodeFrame } from './frames.ts'
import type { HostProcess } from './host-process.ts'

/** A host that sends what a test scripts; `answer` is called with the kind of every frame it receives. */
export interface ScriptedHost extends HostProcess {
  say(kind: number, payload?: string | Uint8Array): void
  /** Writes bytes that need not be a frame. */
  write(bytes: Uint8Array): void
  readonly killed: boolean
}

export function createScriptedHost(answer: (kind: number, host: ScriptedHost) => void): ScriptedHost {
  const [channel, theirs] = duplexPair()
  const [diagnostics] = duplexPair()
  const exited = Promise.withResolvers<void>()
  let killed = false
  const write = (bytes: Uint8Array): void => {
    if (theirs.writable) theirs.write(bytes)
  }
  const host: ScriptedHost = {
    channel,
    diagnostics,
    exited: exited.promise,
    kill() {
      killed = true
      channel.destroy()
      theirs.destroy()
      exited.resolve()
    },
    write,
    say: (kind, payload = '') => write(encodeFrame(kind, Buffer.from(payload as string))),
    get killed() {
      return killed
    },
  }
  theirs.on('error', () => undefined)
  theirs.on(
    'data',
    createFrameReader(2 ** 20, (kind) => answer(kind, host)),
  )
  return host
}
