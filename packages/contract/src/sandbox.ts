import type { Json } from './json.ts'

/** What a sandboxed run may use; every one is a ceiling. */
export interface SandboxLimits {
  readonly wallMs: number
  /** Time on processors, of all processes together. */
  readonly cpuMs: number
  /** Memory of all processes together, files of the workspace included. */
  readonly memoryBytes: number
  /** Processes and threads alive at a time. */
  readonly pids: number
  readonly diskBytes: number
  /** The limit of stored bytes; more output is dropped and marked, and a flood ends the run. */
  readonly stdoutBytes: number
  readonly stderrBytes: number
}

export type SandboxLimit = keyof SandboxLimits

/** The isolation between a program and the host, weakest first. */
export type Isolation = 'none' | 'wasm' | 'namespaces' | 'container' | 'kernel' | 'microvm'

/** What a program may reach: nothing, or origins through the guarded dialer, as egress rules name them. */
export type SandboxNetwork = 'none' | { readonly allow: readonly string[] }

/** A secret that a program uses without reading it: the egress proxy replaces its placeholder, for these hosts only. */
export interface SandboxCredential {
  /** Its name, as secrets are named. */
  readonly secret: string
  /** Origins as egress rules name them, `https://api.example.com`. */
  readonly hosts: readonly string[]
  /** Where in a request it may stand; headers alone when absent. */
  readonly in?: readonly ('header' | 'query' | 'body')[]
}

/** A file for, or from, a sandbox, by path relative to its workspace. */
export type SandboxFile = string | { readonly base64: string } | { readonly artifact: string }

/** Output of `code:run` and `shell:run`. */
export interface SandboxOutput {
  /** Absent when a signal ended the program. */
  readonly exitCode?: number
  readonly signal?: string
  readonly stdout: string
  readonly stderr: string
  /** Streams of which not everything is here. */
  readonly truncated?: readonly ('stdout' | 'stderr' | 'files')[]
  /** The value that the program returned. */
  readonly value?: Json
  readonly files?: { readonly [path: string]: SandboxFile }
}
