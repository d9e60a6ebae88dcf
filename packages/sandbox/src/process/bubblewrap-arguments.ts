/** What differs from one sandbox to the next. */
export interface BubblewrapArguments {
  /** The path of bubblewrap. */
  readonly program: string
  /** From `prepareRootFileSystem`. */
  readonly system: readonly string[]
  readonly diskBytes: number
  /** A folder of the host with the socket of the guarded way out. */
  readonly egressFolder?: string
}

/** Descriptor of the compiled filter; the launcher opens it. */
const seccompDescriptor = 9

/**
 * The whole command: every namespace new, no user namespace inside, a session of its own, one sized folder to write in,
 * and the init as its first process.
 */
export function bubblewrapArguments(options: BubblewrapArguments): [string, ...string[]] {
  const { program, system, diskBytes, egressFolder } = options
  return [
    program,
    ...['--unshare-all', '--unshare-user', '--disable-userns', '--new-session', '--die-with-parent', '--as-pid-1'],
    ...[
      '--clearenv',
      '--uid',
      '1000',
      '--gid',
      '1000',
      '--hostname',
      'sandbox',
      '--seccomp',
      String(seccompDescriptor),
    ],
    ...system,
    ...(egressFolder === undefined ? [] : ['--ro-bind', egressFolder, '/gantry/egress']),
    ...['--size', String(Math.floor(diskBytes)), '--perms', '0700', '--tmpfs', '/work'],
    ...['/work/.gantry', '/work/.gantry/tmp', '/work/.gantry/code', '/work/.gantry/shm'].flatMap(privateFolder),
    ...['--chdir', '/work', '/gantry/init', 'init'],
  ]
}

function privateFolder(path: string): string[] {
  return ['--perms', '0700', '--dir', path]
}
