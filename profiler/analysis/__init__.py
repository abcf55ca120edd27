"""Compute call trees and the weights of lines, instructions and modules from a profile."""
