import { Buffer } from 'node:buffer'
import { createRandom } from '../guest/random.ts'
import {
  decodeWithBytes,
  fromHost,
  type HostJob,
  type HostReport,
  inPieces,
  putBytes,
  type ReportRequest,
  toHost,
  viewOf,
} from './frames.ts'
import type { HostNode, Shell } from './host-node.ts'
import type { DeviceOperations, Disk, MemoryCap, Pyodide } from './pyodide.ts'

/** The services of a host for its Python program: two output streams, an input, a channel, and a way to wait. */
export interface Service {
  install(): void
  /** Reports the end of the program and answers later requests; does not return. */
  end(exitCode: number): never
}

export interface ServiceParts {
  readonly node: HostNode
  readonly shell: Shell
  readonly cap: MemoryCap
  readonly pyodide: Pyodide
  readonly disk: Disk
}

/** Above the major numbers that Emscripten assigns itself. */
const deviceMajor = 200
const channelFd = 3
const openMode = 0o666
const longestPath = 4_096
/** The longest done line of the driver. */
const longestDone = 4_096

export function createService({ node, shell, cap, pyodide, disk }: ServiceParts): Service {
  const { FS } = pyodide
  let stdin: Buffer = Buffer.alloc(0)
  /** The unread part of the job line. */
  let line: Buffer = Buffer.alloc(0)
  let started = false
  /** Whether the next read waits for a job: at the start, and in a session after each run. */
  let open = true
  let session = false

  const begin = (payload: Buffer): void => {
    const { value: job, bytes } = decodeWithBytes<HostJob>(payload)
    let at = job.stdinBytes
    const files = job.files.map(([path, size]) => {
      at += size
      return [path, bytes.subarray(at - size, at)] as const
    })
    stdin = bytes.subarray(0, job.stdinBytes)
    cap.limit(job.memoryBytes)
    disk.limit(job.diskBytes)
    disk.layOut(files)
    const { deterministic } = job
    shell.show(createRandom(deterministic?.seed), deterministic && (() => deterministic.nowMs))
    session = job.session
    open = false
    line = Buffer.from(`${job.line}\n`)
  }
  const report = ({ files, bytes }: ReportRequest): void => {
    let [filesLeft, bytesLeft] = [files, bytes]
    const skip = (path: string, reason: string): void => {
      node.send(fromHost.skipped, Buffer.from(JSON.stringify({ path: path.slice(0, 200), reason })))
    }
    const send = (path: string, content: Uint8Array): void => {
      const over = filesLeft === 0 ? 'files' : content.length > bytesLeft ? 'bytes' : undefined
      if (over !== undefined || path.length > longestPath) {
        skip(path, over === undefined ? 'a path that is too long' : `over the number of ${over}`)
        return
      }
      filesLeft -= 1
      bytesLeft -= content.length
      node.send(fromHost.file, Buffer.from(JSON.stringify({ path, bytes: content.length })))
      inPieces(content, (piece) => node.send(fromHost.content, piece))
    }
    if (files > 0) disk.walk(send, skip)
    const memoryBytes = pyodide._module.HEAPU8.length
    const said: HostReport = { cpuMs: node.cpuMs(), memoryBytes, refusedMemory: cap.refused, refusedDisk: disk.refused }
    node.send(fromHost.report, Buffer.from(JSON.stringify(said)))
  }
  /** Waits for a job and answers report requests meanwhile. */
  const next = (): void => {
    while (open) {
      const { kind, payload } = node.receive()
      if (kind === toHost.job) begin(payload)
      else if (kind === toHost.report) report(JSON.parse(payload.toString()))
    }
  }
  const channel: DeviceOperations = {
    ...inert,
    read(_stream, buffer, offset, length) {
      if (line.length === 0 && open) {
        if (!started) node.send(fromHost.ready, Buffer.from(String(node.cpuMs())))
        started = true
        next()
      }
      const part = line.subarray(0, length)
      line = line.subarray(part.length)
      putBytes(buffer, part, offset)
      return part.length
    },
    write(_stream, buffer, offset, length) {
      const bytes = viewOf(buffer, offset, length)
      inPieces(bytes, (piece) => node.send(fromHost.channel, piece))
      if (session && length <= longestDone && Buffer.from(bytes).includes('"done"')) open = true
      return length
    },
  }
  const wait: DeviceOperations = {
    ...inert,
    write(_stream, buffer, offset, length) {
      const seconds = length === 8 ? Buffer.from(viewOf(buffer, offset, length)).readDoubleLE() : 0
      node.sleep(seconds * 1_000)
      return length
    },
  }
  const stream = (kind: number) => ({
    isatty: false,
    write(given: Uint8Array): number {
      const bytes = viewOf(given, 0, given.length)
      inPieces(bytes, (piece) => node.send(kind, piece))
      return bytes.length
    },
  })
  return {
    install() {
      pyodide.setStdout(stream(fromHost.stdout))
      pyodide.setStderr(stream(fromHost.stderr))
      pyodide.setStdin({
        isatty: false,
        read(into) {
          const part = stdin.subarray(0, into.length)
          stdin = stdin.subarray(part.length)
          putBytes(into, part, 0)
          return part.length
        },
      })
      for (const [index, [path, device]] of Object.entries({ '/dev/channel': channel, '/dev/wait': wait }).entries()) {
        FS.registerDevice(FS.makedev(deviceMajor, index), device)
        FS.mkdev(path, openMode, FS.makedev(deviceMajor, index))
      }
      const { fd } = FS.open('/dev/channel', 'r+')
      if (fd !== channelFd) throw new Error(`The channel is descriptor ${fd}.`)
    },
    end(exitCode) {
      node.send(fromHost.end, Buffer.from(String(exitCode)))
      open = true
      while (true) {
        const { kind, payload } = node.receive()
        if (kind === toHost.report) report(JSON.parse(payload.toString()))
      }
    },
  }
}

const inert: DeviceOperations = {
  open(stream) {
    stream.seekable = false
  },
  close: () => undefined,
  read: () => 0,
  write: () => 0,
}
