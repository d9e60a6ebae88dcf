import { Duplex } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'

/** How the source is run, or what was compiled from it. */
const threadFile = fileURLToPath(new URL(`./thread${import.meta.url.slice(-3)}`, import.meta.url))

/**
 * A connection to an embedded database in a thread of its own, in the shape of a socket as the driver uses one.
 * The thread starts with `connect` and ends with the stream.
 */
export class PgliteStream extends Duplex {
  readonly #folder: string
  #thread: Worker | undefined

  constructor(folder: string) {
    super()
    this.#folder = folder
  }

  connect(): void {
    const thread = new Worker(threadFile, {
      workerData: { folder: this.#folder },
      env: threadEnvironment(),
      execArgv: ['--disable-warning=ExperimentalWarning'],
    })
    this.#thread = thread
    thread.on('message', (message: Uint8Array | 'ready') => {
      if (message === 'ready') this.emit('connect')
      else this.push(Buffer.from(message.buffer, message.byteOffset, message.byteLength))
    })
    thread.on('error', (error) => this.destroy(error as Error))
    thread.on('exit', () => this.destroy())
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#post(chunk)
    done()
  }

  override _writev(chunks: { readonly chunk: Buffer }[], done: () => void): void {
    this.#post(Buffer.concat(chunks.map(({ chunk }) => chunk)))
    done()
  }

  #post(chunk: Buffer): void {
    // A copy, because the driver may reuse the buffer.
    const bytes = new Uint8Array(chunk)
    this.#thread?.postMessage(bytes, [bytes.buffer])
  }

  override _final(done: () => void): void {
    this.#thread?.once('exit', () => done())
    this.#thread?.postMessage('close')
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    const ended = this.#thread?.terminate() ?? Promise.resolve()
    this.#thread = undefined
    void ended.then(() => done(error))
  }

  setNoDelay(): this {
    return this
  }

  setKeepAlive(): this {
    return this
  }

  ref(): this {
    this.#thread?.ref()
    return this
  }

  unref(): this {
    this.#thread?.unref()
    return this
  }
}

/** Of the environment the thread gets only Node's compile cache, which shortens its start. */
function threadEnvironment(): NodeJS.ProcessEnv {
  const { NODE_COMPILE_CACHE } = process.env
  return NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }
}
