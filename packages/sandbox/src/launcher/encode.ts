import { chunkBytes, frameHead, PayloadWriter, toInit, toSupervisor } from './frames.ts'
import type { LaunchPlan } from './launch-plan.ts'
import type { LaunchFile, LaunchJob, LaunchStep } from './launcher.ts'

/** More on descriptor 3 than this is a flood, which ends the run; less than that is for Node to weigh line by line. */
const lineFloodBytes = 16 * 2 ** 20
/** A program over tools asks on it. */
export const gatewayFloodBytes = 256 * 2 ** 20

/** The plan as `native/src/plan.c` reads it. */
export function planFrame(plan: LaunchPlan): Buffer {
  const { cgroups } = plan
  const writer = new PayloadWriter()
    .texts(plan.argv)
    .text(plan.seccompFile ?? '')
    .u8(plan.uid === undefined ? 0 : 1)
    .u32(plan.uid ?? 0)
    .u32(plan.gid ?? plan.uid ?? 0)
    .texts(cgroups.folders)
    .texts(cgroups.parents ?? [])
  writer.list(cgroups.settings, ([file, text]) => writer.text(file).text(text))
  writer.text(cgroups.killFile ?? '')
  writer.list(Object.entries(cgroups.figures), ([name, { file, key }]) => {
    writer
      .text(name)
      .text(file)
      .text(key ?? '')
  })
  writer.list(cgroups.watches, ({ limit, file, key, atLeast }) => {
    writer
      .text(limit)
      .text(file)
      .text(key ?? '')
      .u64(atLeast)
  })
  writeRlimits(writer, plan.rlimits)
  return writer
    .texts(plan.folders)
    .texts(plan.orphans ?? [])
    .u64(plan.epollWatches ?? 0)
    .frame(toSupervisor.plan)
}

export function startFrame(step: LaunchStep, keep: boolean): Buffer {
  const writer = new PayloadWriter().u8(keep ? 1 : 0)
  writeStep(writer, step)
  return writer.frame(toInit.start)
}

export function relayFrame(port: number, socket: string): Buffer {
  return new PayloadWriter().u32(port).text(socket).frame(toInit.relay)
}

/** A further line for the program's descriptor 3. */
export function linePieces(line: string): Uint8Array[] {
  return chunks(toInit.line, Buffer.from(`${line}\n`))
}

/** A job as pieces to write one after the other; its bytes are not copied. Throws FrameError when it cannot be sent. */
export function jobPieces(job: LaunchJob): Uint8Array[] {
  const files = [...(job.files ?? [])].flatMap(([path, file]) => filePieces(path, fileOf(file)))
  const line = job.line === undefined ? [] : linePieces(job.line)
  const stdin = chunks(toInit.stdin, job.stdin ?? new Uint8Array())
  return [...files, goFrame(job), ...line, ...stdin, frameHead(toInit.stdin, 0)]
}

/** What the init may send back: files that are as they went in do not count, and only Node can tell. */
export function collectRoom({ files, collect }: LaunchJob): { readonly files: number; readonly bytes: number } {
  if (collect === undefined) return { files: 0, bytes: 0 }
  const sizes = [...(files?.values() ?? [])].map((file) => fileOf(file).bytes.length)
  return { files: collect.files + sizes.length, bytes: sizes.reduce((sum, size) => sum + size, collect.bytes) }
}

export function fileOf(file: Uint8Array | LaunchFile): LaunchFile {
  return file instanceof Uint8Array ? { bytes: file } : file
}

function goFrame(job: LaunchJob): Buffer {
  const { watch } = job
  const room = collectRoom(job)
  const writer = new PayloadWriter()
  writer.list(job.steps ?? [], (step) => writeStep(writer, step))
  /* One byte more than is kept tells that there was more, also when the program is killed before its bytes are counted. */
  writer
    .u64(job.stdoutBytes + 1)
    .u64(job.stderrBytes + 1)
    .u64(job.gateway === undefined ? lineFloodBytes : gatewayFloodBytes)
  return writer
    .u32(room.files)
    .u64(room.bytes)
    .u64(watch?.memoryBytes ?? 0)
    .u64(watch?.pids ?? 0)
    .u64(watch?.cpuMs ?? 0)
    .frame(toInit.go)
}

function writeStep(writer: PayloadWriter, step: LaunchStep): void {
  writer.texts(step.argv).texts(Object.entries(step.env).map(([name, value]) => `${name}=${value}`))
  writer.text(step.cwd ?? '')
  writeRlimits(writer, step.rlimits ?? {})
}

function writeRlimits(writer: PayloadWriter, rlimits: { readonly [name: string]: number }): void {
  writer.list(Object.entries(rlimits), ([name, value]) => writer.text(name).u64(value))
}

function filePieces(path: string, { bytes, mode = 0o644 }: LaunchFile): Uint8Array[] {
  return [new PayloadWriter().u32(mode).text(path).frame(toInit.file), ...chunks(toInit.bytes, bytes)]
}

function chunks(type: number, bytes: Uint8Array): Uint8Array[] {
  const pieces: Uint8Array[] = []
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    const chunk = bytes.subarray(at, at + chunkBytes)
    pieces.push(frameHead(type, chunk.length), chunk)
  }
  return pieces
}
