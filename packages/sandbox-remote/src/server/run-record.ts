import type { ServerResponse } from 'node:http'
import { ToolError } from '@gantry/contract'
import type { Outcome, ProgramGateway, Sandbox, SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import { type Answers, jsonBytes, type WireOutcome } from '../protocol/documents.ts'
import {
  createFrameWriter,
  type Frame,
  type FrameType,
  frameTypes,
  mostPayloadBytes,
  pieceBytes,
} from '../protocol/frames.ts'
import type { WireJob } from '../protocol/job.ts'
import { errorDocument } from '../protocol/refusal.ts'
import type { SigningKey } from '../protocol/signature.ts'

/**
 * ## Run on a host
 *
 * The frames of one run, kept until the client has them, so that a client whose connection was cut reads on.
 *
 * | state      | entered when                                  | left by                                       |
 * | ---------- | --------------------------------------------- | --------------------------------------------- |
 * | `running`  | the job arrived; it is started once           | the end of the program, an error or a cancel  |
 * | `finished` | the last frame (outcome or error) is there    | the removal of the sandbox                    |
 */
export interface RunRecord {
  /** The digest of the job; a repeated request must have the same. */
  readonly digest: string
  readonly isRunning: boolean
  /** Bytes of frames that are kept. */
  readonly bytes: number
  /** Resolves when the last frame is there. Never rejects. */
  readonly finished: Promise<void>
  /** Sends the frames after a number, then those to come; ends an earlier reader. Resolves when the reader has left. */
  attach(response: ServerResponse, key: SigningKey, request: string, after: number): Promise<void>
  /** The client has the frames up to this number. */
  acknowledge(after: number): void
  /** Hands gateway responses to the program, each once. False when there is a gap before them. */
  answer(answers: Answers): boolean
}

interface RunParts {
  readonly digest: string
  readonly job: WireJob
  readonly sandbox: Sandbox
  readonly signal: AbortSignal
  /** Most bytes of frames that are kept. */
  readonly mostBytes: number
  /** Ends the run; its frames cannot be kept. */
  overflow(): void
  /** Called when the program has ended; resolves when nothing of it runs, and says whether the sandbox can run another. */
  settle(): Promise<boolean>
}

const pingMs = 5_000
/** A response that does not read for this long is ended; the client attaches again. */
const stalledMs = 30_000

export function startRun(parts: RunParts): RunRecord {
  const { digest, job, sandbox, signal, mostBytes } = parts
  const frames = createFrameList()
  const finished = Promise.withResolvers<void>()
  let [isRunning, answered] = [true, 0]
  let detach: () => void = () => undefined
  let wake: () => void = () => undefined
  let respond: Parameters<ProgramGateway['ask']>[1] | undefined

  const add = (type: FrameType, payload: Uint8Array): void => {
    frames.add({ type, payload })
    if (frames.bytes > mostBytes && isRunning) parts.overflow()
    wake()
  }
  const addContent = (type: FrameType, bytes: Uint8Array): void => {
    for (let at = 0; at < bytes.length; at += pieceBytes) add(type, bytes.subarray(at, at + pieceBytes))
  }
  const sent = { stdout: 0, stderr: 0 }
  const listeners: Partial<SandboxJob> = {
    ...(job.streams
      ? {
          onOutput: (stream, bytes) => {
            sent[stream] += bytes.length
            // The bytes may be a view of a buffer that is used again.
            addContent(frameTypes[stream], Buffer.from(bytes))
          },
        }
      : {}),
    ...(job.messages ? { onMessage: (message) => add(frameTypes.message, jsonBytes(message)) } : {}),
    ...(job.gateway
      ? {
          gateway: {
            ask(questions, answer, working = false) {
              respond = answer
              add(frameTypes.ask, jsonBytes({ questions, working }))
            },
          },
        }
      : {}),
  }
  /** Sent while the sandbox is removed: only the outcome, which states whether it is alive, has to wait for that. */
  const addResults = ({ stdout, stderr, files }: Outcome): void => {
    addContent(frameTypes.stdout, stdout.bytes.subarray(sent.stdout))
    addContent(frameTypes.stderr, stderr.bytes.subarray(sent.stderr))
    for (const [path, content] of files) {
      add(frameTypes.file, Buffer.from(path))
      addContent(frameTypes.bytes, content)
    }
  }
  const addOutcome = (outcome: Outcome, alive: boolean): void => {
    const { stdout, stderr, files, ...rest } = outcome
    const streamOf = ({ total, truncated }: Outcome['stdout']) => ({ total, truncated })
    const document: WireOutcome = { ...rest, stdout: streamOf(stdout), stderr: streamOf(stderr), alive }
    const bytes = jsonBytes(document)
    if (bytes.length > mostPayloadBytes) {
      const message = `The value of the program is longer than ${mostPayloadBytes} bytes, which is the most that the runtime remote returns.`
      throw new ToolError('RESULT_TOO_LARGE', message)
    }
    add(frameTypes.outcome, bytes)
  }
  const run = async (): Promise<void> => {
    try {
      const { streams, messages, gateway, ...rest } = job
      const outcome = await sandbox.run({ ...rest, ...listeners }, signal)
      addResults(outcome)
      addOutcome(outcome, await parts.settle())
    } catch (error) {
      await parts.settle()
      add(frameTypes.error, jsonBytes(errorDocument(error)))
    } finally {
      isRunning = false
      finished.resolve()
      wake()
    }
  }
  void run()
  return {
    digest,
    finished: finished.promise,
    get isRunning() {
      return isRunning
    },
    get bytes() {
      return frames.bytes
    },
    acknowledge: frames.drop,
    answer({ first, answers }) {
      if (first > answered + 1) return false
      for (const one of answers.slice(answered + 1 - first)) {
        answered += 1
        respond?.(one)
      }
      return true
    },
    async attach(response, key, request, after) {
      detach()
      frames.drop(after)
      const gone = Promise.withResolvers<void>()
      let isAttached = true
      detach = () => {
        isAttached = false
        gone.resolve()
        response.destroy()
        wake()
      }
      const own = detach
      response.on('close', own)
      const frame = createFrameWriter(key, request)
      const pings = setInterval(() => {
        if (response.writableLength === 0) response.write(frame({ type: frameTypes.ping, payload: new Uint8Array() }))
      }, pingMs)
      response.setTimeout(stalledMs + pingMs)
      let next = after + 1
      try {
        while (isAttached) {
          // What is there at one time goes out in one write.
          const batch: Buffer[] = []
          let size = 0
          for (let each = frames.get(next); each !== undefined && size < pieceBytes; each = frames.get(next)) {
            batch.push(frame(each))
            size += each.payload.length
            next += 1
          }
          if (!isRunning && frames.get(next) === undefined) {
            response.end(Buffer.concat(batch))
            break
          }
          if (batch.length > 0) {
            if (!response.write(Buffer.concat(batch))) await Promise.race([drained(response), gone.promise])
          } else {
            const more = Promise.withResolvers<void>()
            wake = more.resolve
            await more.promise
          }
        }
      } finally {
        clearInterval(pings)
        response.off('close', own)
      }
    },
  }
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => void response.once('drain', resolve))
}

/** Frames by their number, from 1 on; earlier ones are dropped when the client has them. */
interface FrameList {
  readonly bytes: number
  add(frame: Frame): void
  get(number: number): Frame | undefined
  drop(upTo: number): void
}

const frameOverhead = 64

function createFrameList(): FrameList {
  let list: Frame[] = []
  let dropped = 0
  let bytes = 0
  return {
    get bytes() {
      return bytes
    },
    add(frame) {
      list.push(frame)
      bytes += frame.payload.length + frameOverhead
    },
    get: (number) => list[number - dropped - 1],
    drop(upTo) {
      const count = Math.min(upTo - dropped, list.length)
      if (count <= 0) return
      for (const { payload } of list.slice(0, count)) bytes -= payload.length + frameOverhead
      list = list.slice(count)
      dropped += count
    },
  }
}
