import { type SandboxLimits, ToolError } from '@gantry/contract'
import type { Outcome, ProgramResponse, SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import { checkPath } from '@gantry/sandbox/internal/languages/file-path'
import { readAsked, readJson, readMessage, readOutcome } from '../protocol/documents.ts'
import { type Frame, frameTypes } from '../protocol/frames.ts'
import { readErrorDocument } from '../protocol/refusal.ts'

/** The end of a run as the host reports it. */
export type RunEnd =
  | { readonly kind: 'outcome'; readonly outcome: Outcome; readonly alive: boolean }
  | { readonly kind: 'error'; readonly error: ToolError }

/** Collects the frames of one run. A host is not trusted with this process: each frame is within the limits of the job. */
export interface RunIntake {
  /** Number of the last frame. */
  readonly frames: number
  readonly end: RunEnd | undefined
  /** Throws BACKEND_FAILED for a frame that a correct host does not send. */
  take(frame: Frame): void
}

const mostMessageBytes = 134_217_728
/** As the gateway of a local program: requests without a response, each counted with an overhead. */
const mostWaitingBytes = 16_777_216
const requestBytes = 256

export function createRunIntake(
  job: SandboxJob,
  limits: SandboxLimits,
  host: string,
  onAnswer: (answer: ProgramResponse) => void,
): RunIntake {
  const stdout = createCapture(limits.stdoutBytes)
  const stderr = createCapture(limits.stderrBytes)
  const files = createFiles(job.collect)
  const waiting = new Map<number, number>()
  let [frames, messageBytes, asked, waitingBytes] = [0, 0, 0, 0]
  let end: RunEnd | undefined

  const json = (payload: Uint8Array): ReturnType<typeof readJson> => {
    messageBytes += payload.length
    if (messageBytes > mostMessageBytes + waitingBytes) throw new IntakeFault('more messages than it may')
    try {
      return readJson(payload)
    } catch (cause) {
      throw new IntakeFault('a frame that is not JSON', cause)
    }
  }
  const answer = (given: ProgramResponse): void => {
    waitingBytes -= waiting.get(given.number) ?? 0
    waiting.delete(given.number)
    onAnswer(given)
  }
  const takeAsked = (payload: Uint8Array): void => {
    const found = readAsked(json(payload))
    if (found === undefined || job.gateway === undefined) throw new IntakeFault('gateway requests of another form')
    for (const { number, text } of found.questions) {
      asked += 1
      if (number !== asked) throw new IntakeFault('gateway requests out of order')
      const size = text.length + requestBytes
      waiting.set(number, size)
      waitingBytes += size
    }
    // Gateway requests go on for as long as the program is answered; only those that wait are bounded.
    messageBytes -= payload.length
    if (waitingBytes > mostWaitingBytes + requestBytes) throw new IntakeFault('more gateway requests than may wait')
    job.gateway.ask(found.questions, answer, found.working)
  }
  const takeOutcome = (payload: Uint8Array): void => {
    const read = readOutcome(json(payload))
    if (read === undefined) throw new IntakeFault('an outcome of another form')
    const { alive, stdout: out, stderr: err, ...rest } = read
    const outcome: Outcome = {
      ...rest,
      stdout: { bytes: stdout.bytes(), total: Math.max(out.total, stdout.length), truncated: out.truncated },
      stderr: { bytes: stderr.bytes(), total: Math.max(err.total, stderr.length), truncated: err.truncated },
      files: files.all(),
    }
    end = { kind: 'outcome', outcome, alive }
  }
  const takeOne = ({ type, payload }: Frame): void => {
    if (end !== undefined) throw new IntakeFault('a frame after the end of the run')
    if (type === frameTypes.stdout || type === frameTypes.stderr) {
      const stream = type === frameTypes.stdout ? 'stdout' : 'stderr'
      const capture = stream === 'stdout' ? stdout : stderr
      capture.push(payload)
      job.onOutput?.(stream, payload)
    } else if (type === frameTypes.message) {
      const message = readMessage(json(payload))
      if (message === undefined) throw new IntakeFault('a message of another form')
      job.onMessage?.(message)
    } else if (type === frameTypes.ask) takeAsked(payload)
    else if (type === frameTypes.file) files.begin(payload)
    else if (type === frameTypes.bytes) files.push(payload)
    else if (type === frameTypes.outcome) takeOutcome(payload)
    else {
      const error = readErrorDocument(json(payload))
      if (error === undefined) throw new IntakeFault('an error of another form')
      end = { kind: 'error', error }
    }
  }
  return {
    get frames() {
      return frames
    },
    get end() {
      return end
    },
    take(frame) {
      if (frame.type === frameTypes.ping) return
      try {
        takeOne(frame)
        frames += 1
      } catch (error) {
        if (!(error instanceof IntakeFault)) throw error
        throw new ToolError('BACKEND_FAILED', `The host ${host} sent ${error.message}; the run was ended.`, {
          cause: error,
        })
      }
    },
  }
}

class IntakeFault extends Error {
  override readonly name = 'IntakeFault'

  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
  }
}

function createCapture(most: number) {
  const pieces: Uint8Array[] = []
  let length = 0
  return {
    get length() {
      return length
    },
    push(bytes: Uint8Array): void {
      length += bytes.length
      if (length > most) throw new IntakeFault('more output than it may')
      // A copy: the piece is a view of a larger buffer, which it would keep.
      pieces.push(Uint8Array.from(bytes))
    },
    bytes: (): Uint8Array => Buffer.concat(pieces),
  }
}

function createFiles(collect: SandboxJob['collect']) {
  const files = new Map<string, Uint8Array[]>()
  let current: Uint8Array[] | undefined
  let bytes = 0
  return {
    begin(payload: Uint8Array): void {
      const path = new TextDecoder().decode(payload)
      if (checkPath(path) !== undefined || files.has(path))
        throw new IntakeFault('a file with a path that it may not have')
      if (files.size >= (collect?.files ?? 0)) throw new IntakeFault('more files than it may')
      current = []
      files.set(path, current)
    },
    push(payload: Uint8Array): void {
      bytes += payload.length
      if (bytes > (collect?.bytes ?? 0) || current === undefined)
        throw new IntakeFault('more bytes of files than it may')
      current.push(Uint8Array.from(payload))
    },
    all: (): ReadonlyMap<string, Uint8Array> =>
      new Map([...files].map(([path, pieces]) => [path, Buffer.concat(pieces)] as const)),
  }
}
