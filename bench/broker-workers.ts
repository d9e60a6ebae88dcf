import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { RedisServer } from '../scripts/engines/redis.ts'
import type { BrokerOrder } from './broker-process.ts'

/** Worker processes that consume a broker's messages. */
export interface Workers {
  stop(): Promise<void>
}

const bin = join(import.meta.dirname, '..', 'packages', 'gantry', 'bin', 'gantry.mjs')
const startMs = 60_000
/** Concurrency of BullMQ and of Gantry. */
export const slots = 100

/** `count` processes of `gantry serve` as worker and relay on one database; `config` names the broker. */
export async function gantryWorkers(databaseUrl: string, config: object, count = 1): Promise<Workers> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-bench-'))
  const service = { roles: ['worker', 'relay'], slots, logLevel: 'warn' }
  const document = { demo: true, databaseUrl, service, ...config }
  writeFileSync(join(folder, 'gantry.config.json'), JSON.stringify(document), { mode: 0o600 })
  const started: Workers[] = []
  const stop = async (): Promise<void> => {
    await Promise.all(started.map((one) => one.stop()))
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    // The first process creates the tables.
    for (let n = 0; n < count; n += 1) started.push(await gantryWorker(folder, n))
    return { stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function gantryWorker(folder: string, n: number): Promise<Workers> {
  const args = [bin, 'serve', '--json', '--data', join(folder, `data-${n}`)]
  // Each starts from the sources: a bundle that is built meanwhile would make the first process differ.
  const env = { ...process.env, GANTRY_BUNDLE: 'off' }
  const child = spawn(process.execPath, args, { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = `${said}${text}`.slice(-2_000)
  })
  return untilReady(child, once(child.stdout, 'data'), () => said)
}

/** BullMQ's worker in a separate process. */
export function bullmqWorkers({ port, password }: RedisServer): Promise<Workers> {
  return peer({ kind: 'bullmq', port, password, concurrency: slots })
}

/** Kafka's client alone: it answers each message with the given number of bytes, without other work. */
export function echoWorkers(order: Omit<Extract<BrokerOrder, { kind: 'echo' }>, 'kind'>): Promise<Workers> {
  return peer({ kind: 'echo', ...order })
}

async function peer(order: BrokerOrder): Promise<Workers> {
  const child = fork(join(import.meta.dirname, 'broker-process.ts'), [JSON.stringify(order)])
  return untilReady(child, once(child, 'message'), () => '')
}

async function untilReady(child: ChildProcess, ready: Promise<unknown>, said: () => string): Promise<Workers> {
  const gone = once(child, 'exit')
  const ends = gone.then(([code]) => Promise.reject(new Error(`a worker ended with ${code ?? 'a signal'}: ${said()}`)))
  ends.catch(() => undefined)
  const timer = setTimeout(() => child.kill('SIGKILL'), startMs)
  await Promise.race([ready, ends]).finally(() => clearTimeout(timer))
  return {
    async stop() {
      if (child.exitCode === null && child.signalCode === null) child.kill()
      const late = setTimeout(() => child.kill('SIGKILL'), startMs)
      await gone
      clearTimeout(late)
    },
  }
}
