import { decide } from '../decide.ts'
import type { Command } from '../io.ts'

/** Ends a call that waits for a person. */
export const execute: Command = (line, io) => decide('deny', line, io)
