// The way into a sandbox in a container of Proxmox: one connection of TLS with a key of this container, joined to the
// pipes of the init. It runs as root of the container, where no program of the sandbox reaches it: programs have another
// network and another uid. Plain JavaScript, because the Node of the image runs it as it is.
//
// | state     | entered when                               | left by                                              |
// | --------- | ------------------------------------------ | ---------------------------------------------------- |
// | listening | the key was read and removed               | a connection that has the key; `waitMs` without one  |
// | greeted   | an owner is connected; no other is accepted | a header with uid and sizes; the end of the connection |
// | joined    | the pipes of the init are open             | the end of the connection or of the init             |
// | ended     | by any of these                            | the container is powered off, with everything in it  |
import { spawnSync } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { closeSync, constants, open, readFileSync, unlinkSync, writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { hostname } from 'node:os'
import { createServer } from 'node:tls'

const port = 7422
/** How long the container waits for its owner after its start. */
const waitMs = 120_000
const handshakeMs = 10_000
const mostHeaderBytes = 256
const pipeTries = 2_500
const pipeEveryMs = 2
const keyFile = '/gantry/agent-key'

const [address = ''] = process.argv.slice(2)
const key = ownKey()
const contents = readFileSync('/gantry/contents.json', 'utf8').trim()
const late = setTimeout(end, waitMs)
let isTaken = false

const server = createServer({
  ciphers: 'ECDHE-PSK-CHACHA20-POLY1305',
  minVersion: 'TLSv1.2',
  maxVersion: 'TLSv1.2',
  handshakeTimeout: handshakeMs,
  pskCallback: (_, identity) => (!isTaken && identity === hostname() ? key : null),
})
server.maxConnections = 8
server.on('tlsClientError', (_, socket) => socket.destroy())
server.on('error', end)
server.on('secureConnection', (socket) => {
  socket.on('error', () => undefined)
  if (isTaken) return void socket.destroy()
  isTaken = true
  clearTimeout(late)
  server.close()
  key.fill(0)
  serve(socket)
})
server.listen(port, address)

/** The key of this container alone: with it no other container of the template can be entered. */
function ownKey() {
  const shared = readFileSync(keyFile)
  unlinkSync(keyFile)
  // By its bytes, because a string could not be overwritten.
  const text = shared.at(-1) === 10 ? shared.subarray(0, -1) : shared
  const own = createHmac('sha256', text).update(`gantry-agent-1\n${hostname()}`).digest()
  shared.fill(0)
  return own
}

function serve(socket) {
  socket.setNoDelay(true)
  socket.on('close', end)
  socket.on('end', end)
  socket.write(`${contents}\n`)
  let head = Buffer.alloc(0)
  const take = (bytes) => {
    head = Buffer.concat([head, bytes])
    const line = head.indexOf(10)
    if (line === -1 && head.length < mostHeaderBytes) return
    socket.off('data', take)
    socket.pause()
    const found = /^([1-9]\d{3,4}) ([1-9]\d{3,14}) ([1-9]\d{3,14})$/.exec(head.subarray(0, line).toString('latin1'))
    if (line === -1 || found === null || Number(found[1]) > 65_000) return end()
    writeSync(1, `${found[1]} ${found[2]} ${found[3]}\n`)
    closeSync(1)
    join(socket, head.subarray(line + 1)).catch(end)
  }
  socket.on('data', take)
}

async function join(socket, first) {
  // In the order in which the init opens them.
  const toInit = await openPipe('/work/.to-init', constants.O_WRONLY)
  const fromInit = await openPipe('/work/.from-init', constants.O_RDONLY)
  // The init neither counts nor kills these two processes of ours.
  const spared = Buffer.alloc(8)
  spared.writeInt32LE(process.pid, 0)
  spared.writeInt32LE(process.pid, 4)
  writeSync(toInit, spared)
  const input = new Socket({ fd: toInit, readable: false, writable: true })
  const output = new Socket({ fd: fromInit, readable: true, writable: false })
  for (const pipe of [input, output]) pipe.on('error', end)
  output.on('end', () => socket.end())
  if (first.length > 0) input.write(first)
  socket.pipe(input)
  output.pipe(socket, { end: false })
}

/** Opens a named pipe as soon as the init has made it. */
function openPipe(path, flags) {
  return new Promise((resolve, reject) => {
    const attempt = (left) =>
      open(path, flags, (error, fd) => {
        if (error === null) resolve(fd)
        else if (error.code === 'ENOENT' && left > 0) setTimeout(attempt, pipeEveryMs, left - 1)
        else reject(error)
      })
    attempt(pipeTries)
  })
}

/** Ends the container, and with it every process in it. */
function end() {
  spawnSync('/usr/bin/busybox', ['poweroff', '-f'])
  process.exit(1)
}
