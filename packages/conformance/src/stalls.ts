import assert from 'node:assert/strict'
import { setImmediate as turn } from 'node:timers/promises'
import { ToolError } from '@gantry/contract'

/** One tick that the event loop did not answer: so much processor time of its thread without a turn. */
const tickMs = 10

/**
 * Counts the ticks that the event loop missed in its longest stall while `work` ran. A tick is processor time of this
 * thread, so that a machine that is busy with other work misses none.
 */
export async function missedTicks(work: () => unknown): Promise<number> {
  let longestMs = 0
  let before = cpuMs()
  const look = (): void => {
    const now = cpuMs()
    longestMs = Math.max(longestMs, now - before)
    before = now
  }
  const timer = setInterval(look, 1)
  try {
    await work()
    await turn()
  } finally {
    look()
    clearInterval(timer)
  }
  return Math.floor(longestMs / tickMs)
}

/**
 * The ticks of the best of three measurements, the first of which suffices when it is within the limit: a collection of
 * garbage or a shared processor can double one, and what is quadratic exceeds them all.
 */
async function fewestTicks(work: () => unknown, most: number): Promise<number> {
  let fewest = await missedTicks(work)
  for (let again = 0; again < 2 && fewest > most; again += 1) fewest = Math.min(fewest, await missedTicks(work))
  return fewest
}

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
}

/** Texts that are repeated to make long input: each is the blank, the start or the separator of something that is parsed. */
export const hostileFillers: readonly string[] = [
  ' ',
  '\n',
  '\t',
  '\r\n',
  '\0',
  '"',
  "'",
  '\\',
  '{{',
  '(',
  '[',
  '<',
  'a.',
  'a://a:a@',
  '@',
  '-',
  '%',
  '0',
  '\ud800',
  'e\u0301',
  'import ',
  'tools ',
]

/** Additional fillers of the long campaign. */
export const moreFillers: readonly string[] = [
  ...[
    '\r',
    '\u00a0',
    '\u2028',
    '\u007f',
    '\u001b[',
    '`',
    '\\"',
    '"\\',
    '("',
    '{',
    '{{ ',
    '}}',
    ']',
    '[[',
    '</',
    '<!--',
  ],
  '{"a":',
  '<a ',
  'a',
  'A',
  'aA',
  '/',
  'a/',
  '//',
  '://',
  'a@',
  '_',
  '--a ',
  '%2',
  '%00',
  '1e',
  '0,',
  '\udc00',
  ...[
    '\ud83d\ude00',
    '\u0301',
    '\ufeff',
    'ß',
    'ı',
    '=',
    'a=',
    '&',
    '&amp',
    '&#',
    ';',
    ',',
    ':',
    'a:',
    '?',
    '*',
    '+',
    '^',
    '$',
  ],
  ...[
    '|',
    '~',
    '#',
    '!',
    '.',
    '{}=',
    'data:',
    'data:\n',
    '*/',
    '/*',
    '__proto__',
    '$ref',
    '\\u0000',
    'a\n',
    ' \n',
    '\n ',
  ],
  ...['tools\n', '"a"', "'a:1'", 'a b ', '\n\t', '}{', '](', '("a",'],
]

/** A parser of caller input. */
export interface EntryPoint {
  readonly name: string
  /** Feeds it one text. What it throws must be a ToolError, or pass `refuses`. */
  readonly feed: (text: string) => unknown
  readonly refuses?: (error: unknown) => boolean
  /** Additional fillers for its syntax. */
  readonly also?: readonly string[]
  /** How many times the usual ticks it may take, where much is done for each character; 1 when absent. */
  readonly factor?: number
}

/**
 * Sizes, and how many ticks the longest stall of each may have. What is quadratic exceeds the first or the second before the
 * third would take minutes.
 */
const sizes: readonly (readonly [characters: number, ticks: number])[] = [
  [16_000, 12],
  [125_000, 25],
  [1_000_000, 60],
]

/** Feeds an entry point each filler and checks that none of them stalls the event loop. Returns the longest stall, in ticks. */
export async function feedFillers(
  { name, feed, refuses, also = [], factor = 1 }: EntryPoint,
  fillers: readonly string[] = [...hostileFillers, ...also],
): Promise<number> {
  const fed = (text: string) => async (): Promise<void> => {
    try {
      await feed(text)
    } catch (error) {
      if (!ToolError.is(error) && refuses?.(error) !== true) throw error
    }
  }
  // The first run loads and compiles what it needs.
  await fed('a')()
  let longest = 0
  for (const filler of fillers) {
    for (const [characters, usual] of sizes) {
      const most = usual * factor
      const text = filler.repeat(Math.ceil(characters / filler.length)).slice(0, characters)
      const ticks = await fewestTicks(fed(text), most)
      longest = Math.max(longest, ticks)
      const what = `${name}: ${characters} characters of ${JSON.stringify(filler)}`
      assert.ok(ticks <= most, `${what} stall the event loop for ${ticks} ticks of ${tickMs} ms, not ${most} or fewer`)
    }
  }
  return longest
}
