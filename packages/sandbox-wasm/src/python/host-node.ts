import { Buffer } from 'node:buffer'
import { readSync, writeSync } from 'node:fs'
import { encodeFrame, headBytes } from './frames.ts'

/** What a host keeps of Node, in closures, before it gives up the rest. */
export interface HostNode {
  send(kind: number, ...parts: readonly Uint8Array[]): void
  /** Waits for the next frame; when whoever started this is gone there is none, and then this goes too. */
  receive(): { readonly kind: number; readonly payload: Buffer }
  /** For whoever looks after hosts; no program's words. */
  complain(text: string): void
  cpuMs(): number
  sleep(ms: number): void
  exit(code: number): never
}

const [diagnostics, channel] = [2, 3]
const longestSleepMs = 2_147_483_647

export function takeNode(): HostNode {
  const exit = process.exit.bind(process) as (code: number) => never
  const cpuUsage = process.cpuUsage.bind(process)
  const { wait } = Atomics
  const cell = new Int32Array(new SharedArrayBuffer(4))
  const write = (descriptor: number, bytes: Uint8Array): void => {
    for (let done = 0; done < bytes.length; ) done += writeSync(descriptor, bytes, done)
  }
  const read = (length: number): Buffer => {
    const room = Buffer.allocUnsafe(length)
    for (let done = 0; done < length; ) {
      const got = readSync(channel, room, done, length - done, null)
      if (got === 0) exit(0)
      done += got
    }
    return room
  }
  return {
    exit,
    send: (kind, ...parts) => write(channel, encodeFrame(kind, ...parts)),
    receive() {
      const head = read(headBytes)
      return { kind: head.readUInt8(0), payload: read(head.readUInt32LE(1)) }
    },
    complain: (text) => write(diagnostics, Buffer.from(`${text}\n`)),
    cpuMs() {
      const { user, system } = cpuUsage()
      return (user + system) / 1_000
    },
    sleep: (ms) => void wait(cell, 0, 0, Math.min(ms, longestSleepMs)),
  }
}
