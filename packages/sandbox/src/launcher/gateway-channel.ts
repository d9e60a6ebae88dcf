import { type Json, type JsonObject, ToolError } from '@gantry/contract'
import { parseJson } from '@gantry/core/internal/json/parse'
import type {
  Outcome,
  ProgramFault,
  ProgramGateway,
  ProgramRequest,
  ProgramResponse,
} from '@gantry/core/internal/runtimes/runtime'

/** Most bytes of gateway requests without a response, each counted with an overhead. */
const mostWaitingBytes = 16 * 2 ** 20
const questionBytes = 256
/** Most bytes of gateway responses that the program has not read. */
const mostUnreadBytes = 64 * 2 ** 20
const longestText = 8_192
/** A program reports its value or its failure; one that fails after its value reports both. */
const mostEnds = 4

export interface GatewayOptions {
  readonly gateway: ProgramGateway
  /** Writes a line to the program's descriptor; returns the number of bytes that are not yet sent. */
  readonly send: (line: string) => number
  /** Ends the run. */
  readonly fail: (error: ToolError) => void
}

/** The host's end of the gateway of one program. */
export interface GatewayChannel {
  /** Handles one line, without its token. */
  take(line: string): void
  /** No response is sent after this. */
  close(): void
  /** The value or fault that the program reported. */
  said(): Pick<Outcome, 'value' | 'fault'>
}

/**
 * ## Gateway channel
 *
 * The host's end of `native/drivers/python_gateway.py`, whose lines are as hostile as its program: the program may have
 * read the token. So a request must have the next number, or the run ends; a response goes to its number once.
 *
 * States: `collecting`, `quiescent`, `closed`.
 *
 * | from         | to           | cause                                                                      |
 * | ------------ | ------------ | -------------------------------------------------------------------------- |
 * | `collecting` | `collecting` | a request arrives; or the program rests before it has read every response  |
 * | `collecting` | `quiescent`  | the program rests after reading every response: the gateway gets the batch |
 * | `quiescent`  | `collecting` | the gateway responds                                                       |
 * | any          | `closed`     | `close`, a forged line, or too many bytes without a response               |
 *
 * The gateway is called for each quiescence, also of a program whose threads or children may still work.
 */
export function createGatewayChannel({ gateway, send, fail }: GatewayOptions): GatewayChannel {
  const waiting = new Map<number, number>()
  let asked: ProgramRequest[] = []
  let count = 0
  let given = 0
  let bytes = 0
  let rested = { count: 0, read: -1, working: true }
  let ends = 0
  let over = false
  let said: Pick<Outcome, 'value' | 'fault'> = {}

  const stop = (error: ToolError): void => {
    over = true
    fail(error)
  }
  const answer = ({ number, ok, text, nowMs }: ProgramResponse): void => {
    const size = waiting.get(number)
    if (over) return
    if (size === undefined) {
      stop(
        new ToolError(
          'BACKEND_FAILED',
          `The host responded to gateway request ${number}, which waits for no response.`,
        ),
      )
      return
    }
    waiting.delete(number)
    bytes -= size
    given += 1
    const time = nowMs === undefined ? '-' : Math.trunc(nowMs)
    const unread = send(`${number} ${ok ? 1 : 0} ${time} ${text.replaceAll('\n', ' ')}`)
    if (unread > mostUnreadBytes) stop(tooMuch('responses that it did not read', mostUnreadBytes))
  }
  const question = (rest: string): ToolError | undefined => {
    const found = /^(\d{1,15}) ([a-z]{1,16}) /.exec(rest)
    if (found === null || Number(found[1]) !== count + 1) return forged('a gateway request out of order')
    const [head, , kind = ''] = found
    const text = rest.slice(head.length)
    const size = text.length + questionBytes
    count += 1
    bytes += size
    if (bytes > mostWaitingBytes) return tooMuch('gateway requests without a response', mostWaitingBytes)
    waiting.set(count, size)
    asked.push({ number: count, kind, text })
    return undefined
  }
  const rest = (text: string, working: boolean): ToolError | undefined => {
    const read = Number(text)
    if (!Number.isSafeInteger(read) || read < 0 || read > given)
      return forged('a receipt of responses that the host did not send')
    // The driver reports each quiescence once, and once more when threads and children have ended.
    if (read === rested.read && count === rested.count && (working || !rested.working))
      return forged('a repeated quiescence report')
    rested = { count, read, working }
    if (read < given) return undefined
    const questions = asked
    asked = []
    gateway.ask(questions, answer, working)
    return undefined
  }
  const heed = (line: string): ToolError | undefined => {
    const text = line.slice(2)
    if (line.startsWith('? ')) return question(text)
    if (line.startsWith('. ') || line.startsWith('~ ')) return rest(text, line.startsWith('~'))
    if (!line.startsWith('= ') && !line.startsWith('! ')) return forged('an unknown line')
    ends += 1
    if (ends > mostEnds) return forged('too many end reports')
    said = line.startsWith('= ') ? endOf(text) : { fault: faultOf(text) }
    return undefined
  }
  return {
    take(line) {
      const wrong = over ? undefined : heed(line)
      if (wrong !== undefined) stop(wrong)
    },
    close() {
      over = true
    },
    // A program that made a request was compiled, whatever it reports.
    said: () => (count > 0 && said.fault !== undefined ? { fault: { ...said.fault, kind: 'run' } } : said),
  }
}

function endOf(text: string): Pick<Outcome, 'value' | 'fault'> {
  try {
    return { value: parseJson(text) }
  } catch {
    return { fault: { kind: 'run', name: 'ValueError', message: 'The value of the program is not JSON.' } }
  }
}

function faultOf(text: string): ProgramFault {
  const said = objectOf(text)
  const { name, message, line, column, stack, error } = said
  return {
    kind: said.kind === 'compile' ? 'compile' : 'run',
    name: clip(name, 'Error'),
    message: clip(message, ''),
    ...(isPlace(line) ? { line } : {}),
    ...(isPlace(column) ? { column } : {}),
    ...(typeof stack === 'string' ? { stack: clip(stack, '') } : {}),
    ...(error === undefined ? {} : { error }),
  }
}

function objectOf(text: string): JsonObject {
  try {
    const value = parseJson(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {}
  } catch {
    return {}
  }
}

function clip(value: Json | undefined, otherwise: string): string {
  return typeof value === 'string' ? value.slice(0, longestText) : otherwise
}

function isPlace(value: Json | undefined): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0
}

function forged(what: string): ToolError {
  return new ToolError('CODE_FAILED', `The program was ended, because it wrote ${what} to its gateway descriptor.`)
}

function tooMuch(what: string, most: number): ToolError {
  const message = `The program was ended, because its ${what} have more than ${most} bytes; await some before making more.`
  return new ToolError('LIMIT_EXCEEDED', message, { details: { limit: 'waitingBytes' } })
}
