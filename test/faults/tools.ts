import { randomUUID } from 'node:crypto'
import { closeSync, fdatasyncSync, linkSync, mkdirSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EffectClass } from '@gantry/contract'
import { type DefinedTool, defineTool, type ToolContext } from 'gantry'
import { commonClock, type Effect } from './ledgers.ts'
import { oddTools } from './odd-tools.ts'

const inputSchema = {
  type: 'object',
  properties: {
    id: { type: 'string', pattern: '^[\\w.-]{1,100}$' },
    beforeMs: { type: 'number' },
    afterMs: { type: 'number' },
    /** A failure of the tool after its effect. */
    then: { enum: ['die', 'block', 'throw', 'hog'] },
    note: {},
    /** Additional characters in the output. */
    fill: { type: 'integer' },
  },
  required: ['id'],
} as const

interface Args {
  readonly id: string
  readonly beforeMs?: number
  readonly afterMs?: number
  readonly then?: 'die' | 'block' | 'throw' | 'hog'
  readonly fill?: number
}

/** Appends lines durably, so that they survive a kill of this process. */
export function openLedger(file: string): (line: object) => void {
  const handle = openSync(file, 'a', 0o600)
  return (line) => {
    writeSync(handle, `${JSON.stringify(line)}\n`)
    fdatasyncSync(handle)
  }
}

/** A tool of each effect class, whose effect is a line in the ledger. */
export function faultTools(folder: string): DefinedTool[] {
  const append = openLedger(join(folder, 'effects'))
  const note = (context: ToolContext, id: string, what: Effect['what']): void => {
    const { callId, tool, attempt, fence, idempotencyKey: key } = context
    append({
      what,
      id,
      callId,
      tool: tool.split(':')[1],
      key,
      attempt,
      fence,
      pid: process.pid,
      at: commonClock(),
    } satisfies Effect)
  }
  const act = async (args: Args, context: ToolContext, effect: () => unknown): Promise<object> => {
    if (args.beforeMs) await sleep(args.beforeMs, undefined, { signal: context.signal })
    effect()
    note(context, args.id, 'act')
    if (args.then === 'die') process.kill(process.pid, 'SIGKILL')
    if (args.then === 'block') block(args.afterMs ?? 0)
    if (args.then === 'hog') hog()
    if (args.then === 'throw') throw new Error('It went wrong after its effect.')
    if (args.afterMs) await sleep(args.afterMs, undefined, { signal: context.signal })
    return args.fill === undefined ? { id: args.id } : { id: args.id, text: args.id[0]?.repeat(args.fill) }
  }
  const tool = (name: string, effect: EffectClass, rest: object = {}): DefinedTool =>
    defineTool({
      namespace: 'fault',
      name,
      effect,
      inputSchema,
      description: `Leaves a line in the ledger; its effect class is ${effect}.`,
      run: (args, context) => act(args as Args, context, () => undefined),
      ...rest,
    })
  return [
    ...oddTools(),
    tool('read', 'read'),
    tool('once', 'once'),
    tool('repeatable', 'repeatable'),
    tool('keyed', 'keyed', {
      run: (args: Args, context: ToolContext) =>
        act(args, context, () => downstream(join(folder, 'keyed'), context.idempotencyKey, args.id)),
    }),
    tool('reconcilable', 'reconcilable', {
      lookup: (key: string) => {
        const done = readLedger(folder).find((line) => line.what === 'act' && line.key === key)
        return done === undefined ? { found: false } : { found: true, output: { id: done.id } }
      },
    }),
    tool('alone', 'keyed', {
      concurrencyKey: 'alone',
      concurrency: 1,
      async run(args: Args, context: ToolContext) {
        note(context, args.id, 'enter')
        try {
          return await act(args, context, () => downstream(join(folder, 'keyed'), context.idempotencyKey, args.id))
        } finally {
          note(context, args.id, 'leave')
        }
      },
    }),
  ]
}

/**
 * A downstream service that performs an operation once for each key. It records the operation atomically, because its
 * caller may be killed at any moment.
 */
function downstream(folder: string, key: string, id: string): void {
  const drafts = `${folder}-drafts`
  for (const one of [folder, drafts]) mkdirSync(one, { recursive: true })
  const draft = join(drafts, randomUUID())
  const handle = openSync(draft, 'wx')
  writeSync(handle, id)
  fdatasyncSync(handle)
  closeSync(handle)
  try {
    linkSync(draft, join(folder, key))
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'EEXIST') throw error
  }
}

/** Ids of the operations of the downstream service. */
export function readDownstream(folder: string): string[] {
  const place = join(folder, 'keyed')
  return names(place).map((key) => readFileSync(join(place, key), 'utf8'))
}

/** Reads complete lines only: the last one may be partly written. */
export function readLedger(folder: string): Effect[] {
  const text = readFileSync(join(folder, 'effects'), { encoding: 'utf8', flag: 'a+' })
  return text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Effect)
}

function names(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

/** Allocates memory until the process dies. */
function hog(): void {
  for (const held: string[][] = []; ; ) held.push(Array.from({ length: 100_000 }, (_, n) => `${n} ${held.length}`))
}

function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}
